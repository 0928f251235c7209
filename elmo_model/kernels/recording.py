"""Work on an accelerator recorded once as a CUDA graph, since launching short operations takes longer than they do."""

from collections.abc import Callable
from typing import TypeVar

import torch

R = TypeVar("R")


def record(work: Callable[[], R], device: torch.device) -> tuple[Callable[[], None], R]:
    """A function that does the work again on the same tensors, and the work's result, which it fills anew.

    The work is done once before it is recorded; between recording and the first replay its result is undefined.

    Args:
        work: Operations on tensors of the device; it must not wait for the device.
        device: A CUDA device.
    """
    with torch.cuda.device(device):
        side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            work()  # libraries make their work space now
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            result = work()
    return graph.replay, result
