"""Threads that each compute alone, so that no result depends on how many there are."""

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

_Task = TypeVar("_Task")
_Result = TypeVar("_Result")


class Workers:
    """A pool of threads in each of which torch uses that one thread only.

    Torch itself would split every operation over its threads, at points that depend on their number; the last elements
    of a part can then differ in the last bit. Here whole tasks are divided.
    """

    def __init__(self, threads: int) -> None:
        self.threads = threads
        before = torch.get_num_threads()
        self._pool = ThreadPoolExecutor(threads, "elmo", initializer=_compute_alone)
        started = threading.Barrier(threads)
        list(self._pool.map(lambda _: started.wait(), range(threads)))
        torch.set_num_threads(before)  # the setting of the last thread would else become that of threads to come

    def map(self, function: Callable[[_Task], _Result], tasks: Iterable[_Task]) -> list[_Result]:
        """The results of the tasks, in their order, computed without gradients."""

        def run(task: _Task) -> _Result:
            with torch.inference_mode():
                return function(task)

        return list(self._pool.map(run, tasks))


def _compute_alone() -> None:
    torch.get_num_threads()  # makes a new thread take over the global setting, which it would else do later
    torch.set_num_threads(1)
