"""Threads for work that falls into independent parts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TypeVar

import torch

A = TypeVar("A")
B = TypeVar("B")


def in_parallel(function: Callable[[A], B], parts: Iterable[A], *, device: torch.device) -> list[B]:
    """The function's results for all parts, computed on as many threads as torch has, one part a thread.

    The directions of a model are such parts. Torch's way, all threads on one operation after the other, makes threads
    wait for each other ten thousand times a second. An accelerator is given one part after the other.
    """
    parts = list(parts)
    threads = min(torch.get_num_threads(), len(parts)) if device.type == "cpu" else 1
    if threads < 2:
        return [function(part) for part in parts]
    return list(_pool(threads, torch.get_num_threads() // threads).map(function, parts))


@cache
def _pool(threads: int, torch_threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, initializer=lambda: torch.set_num_threads(torch_threads))
