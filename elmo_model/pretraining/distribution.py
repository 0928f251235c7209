"""Training on several processes: each has a part of the rows of a joint window, and all take the same step."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed
from torch import Tensor

from elmo_model.pretraining.streams import Window


class Processes:
    """The processes of a run, or this one alone if `torch.distributed` wasn't set up.

    All read the joint data and draw the same candidates, so that a run of n processes takes the steps of one process
    with n times the rows.

    Attributes:
        count: How many there are.
        rank: The number of this one.
    """

    def __init__(self) -> None:
        together = torch.distributed.is_available() and torch.distributed.is_initialized()
        self.count = torch.distributed.get_world_size() if together else 1
        self.rank = torch.distributed.get_rank() if together else 0

    def own_rows(self, window: Window) -> Window:
        """This process's rows of a joint window."""
        size = len(window.inputs) // self.count
        own = slice(self.rank * size, (self.rank + 1) * size)
        return Window(window.inputs[own], window.targets[own])

    def average(self, tensor: Tensor) -> Tensor:
        """The mean of a tensor over all processes."""
        if self.count > 1:
            torch.distributed.all_reduce(tensor)
            tensor = tensor / self.count
        return tensor

    def average_(self, gradients: Sequence[Tensor]) -> None:
        """Replaces gradients by their means over all processes."""
        if self.count == 1:
            return
        joined = self.average(torch.cat([gradient.flatten() for gradient in gradients]))
        for gradient, mean in zip(gradients, torch.split(joined, [g.numel() for g in gradients]), strict=True):
            gradient.copy_(mean.view_as(gradient))

    def gather(self, rows: Tensor) -> Tensor:
        """The rows (batch, width) of all processes, in order of rank."""
        if self.count == 1:
            return rows
        parts = [torch.empty_like(rows) for _ in range(self.count)]
        torch.distributed.all_gather(parts, rows.contiguous())
        return torch.cat(parts)

    def own_part(self, rows: Tensor) -> Tensor:
        """This process's part of rows gathered before."""
        return rows.chunk(self.count)[self.rank]

    def of_leader(self, value: float) -> float:
        """The value that the process of rank 0 has."""
        if self.count == 1:
            return value
        held = torch.tensor([value], dtype=torch.float64)
        torch.distributed.broadcast(held, src=0)
        return held.item()

    def agree(self, flag: bool) -> bool:
        """Whether the flag is set in any process."""
        if self.count == 1:
            return flag
        votes = torch.tensor([float(flag)])
        torch.distributed.all_reduce(votes, op=torch.distributed.ReduceOp.MAX)
        return bool(votes.item())
