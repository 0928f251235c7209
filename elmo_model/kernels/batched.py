"""The LSTM on an accelerator: all directions in one batched product a step, and the step replayed as one CUDA graph.

A step is two products and, between them, one fused kernel. At the sizes of ELMo that is short on an accelerator, and
launching its operations one by one can take longer than computing them. So a step is recorded once for each of a few
numbers of rows, and replayed. On a CPU the same code runs unrecorded and unfused.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from elmo_model.kernels.cell import advance, has_fused
from elmo_model.kernels.interface import free_weights
from elmo_model.kernels.recording import record
from elmo_model.kernels.tf32 import tf32
from elmo_model.lstm import LstmState, ProjectedLstm

ROW_BUCKET = 64  # rows are rounded up to a multiple of this, so that few steps need recording
BLOCK_SENTENCES = 1024  # sentences computed together; bounds the work space


class BatchedLayer:
    """A layer ready to compute on one device; see `interface.LayerKernel`.

    Args:
        directions: The weights, of equal shapes.
        dtype: Of the products' operands; the cell state is float32 always.
        device: Where to compute.
        tf32: Whether float32 products may round their operands to TF32, on hardware that does.
        consume: Whether to empty the weights once they are taken over, so that they aren't held twice.
    """

    def __init__(
        self,
        directions: Sequence[ProjectedLstm],
        *,
        dtype: torch.dtype,
        device: torch.device,
        tf32: bool = False,
        consume: bool = False,
    ) -> None:
        first = directions[0]
        self._cells, self._width = first.n_cells, first.width
        self._cell_clip, self._proj_clip = first.cell_clip, first.proj_clip
        self._dtype, self._device, self._tf32 = dtype, device, tf32
        self._weight = _stacked([layer.weight.T for layer in directions], dtype, device)  # (directions, 2p, 4c)
        bias = [_with_forget_bias(layer) for layer in directions]
        self._bias = _stacked(bias, torch.float32, device)  # (directions, 4c)
        self._fused = device.type == "cuda" and has_fused()
        projections = [layer.projection.T for layer in directions if layer.projection is not None]
        self._projection = _stacked(projections, dtype, device) if projections else None  # (directions, c, p)
        if consume:
            free_weights(*directions)
        self._joined = torch.empty(0)
        self._cell = torch.empty(0)
        self._steps: dict[int, Callable[[], None]] = {}

    def __call__(
        self, inputs: Sequence[Tensor], batch_sizes: Sequence[int], states: Sequence[LstmState]
    ) -> tuple[list[Tensor], list[LstmState]]:
        """Runs all directions together, a block of sentences after the other."""
        rows = torch.stack(list(inputs))
        outputs = torch.empty_like(rows)
        before = LstmState(*(torch.stack(parts) for parts in zip(*states, strict=True)))
        after = LstmState(torch.empty_like(before.cell), torch.empty_like(before.hidden))
        with tf32(allowed=self._tf32):
            for first in range(0, batch_sizes[0], BLOCK_SENTENCES):
                self._run_block(first, rows, batch_sizes, before, outputs, after)
        final = [LstmState(cell, hidden) for cell, hidden in zip(*after, strict=True)]
        return list(outputs), final

    def _run_block(
        self,
        first: int,
        rows: Tensor,
        batch_sizes: Sequence[int],
        before: LstmState,
        outputs: Tensor,
        after: LstmState,
    ) -> None:
        last = min(first + BLOCK_SENTENCES, batch_sizes[0])
        self._reserve(len(rows), last - first)
        hidden = self._joined[:, :, self._width :]
        self._cell[:, : last - first] = before.cell[:, first:last]
        hidden[:, : last - first] = before.hidden[:, first:last]
        start, active = 0, last - first
        for size in (*batch_sizes, first):  # no sentence of the block goes on behind the last position
            going_on = max(min(size, last) - first, 0)
            if going_on < active:
                ended = slice(going_on, active)
                after.cell[:, first:last][:, ended] = self._cell[:, ended]
                after.hidden[:, first:last][:, ended] = hidden[:, ended]
                active = going_on
            if not active:
                return
            here = slice(start + first, start + first + active)
            self._joined[:, :active, : self._width] = rows[:, here]
            self._step(active)
            outputs[:, here] = hidden[:, :active]
            start += size

    def _reserve(self, directions: int, sentences: int) -> None:
        """Makes the work space hold the sentences; steps recorded on a smaller one are dropped with it."""
        needed = -(-sentences // ROW_BUCKET) * ROW_BUCKET
        if self._cell.numel() == 0 or needed > self._cell.shape[1]:
            self._steps.clear()
            self._joined = torch.zeros(directions, needed, 2 * self._width, dtype=self._dtype, device=self._device)
            self._cell = torch.zeros(directions, needed, self._cells, device=self._device)

    def _step(self, active: int) -> None:
        """Moves the state of the first `active` rows on by one token; further rows may change too."""
        rows = -(-active // ROW_BUCKET) * ROW_BUCKET
        if self._device.type != "cuda":
            self._compute(rows)
            return
        if rows not in self._steps:
            self._steps[rows] = self._recorded(rows)
        self._steps[rows]()

    def _recorded(self, rows: int) -> Callable[[], None]:
        kept = self._joined.clone(), self._cell.clone()
        replay, _ = record(lambda: self._compute(rows), self._device)
        self._joined.copy_(kept[0])
        self._cell.copy_(kept[1])
        return replay

    def _compute(self, rows: int) -> None:
        joined, cell = self._joined[:, :rows], self._cell[:, :rows]
        sums = torch.bmm(joined, self._weight)
        opened = advance(sums, self._bias, cell, cell_clip=self._cell_clip, fused=self._fused)
        if self._projection is not None:
            opened = torch.bmm(opened, self._projection)
            if self._proj_clip is not None:
                opened.clamp_(-self._proj_clip, self._proj_clip)
        joined[:, :, self._width :] = opened


def _stacked(parts: Sequence[Tensor], dtype: torch.dtype, device: torch.device) -> Tensor:
    return torch.stack([part.detach().to(device, dtype) for part in parts])


def _with_forget_bias(layer: ProjectedLstm) -> Tensor:
    bias = layer.bias.detach().clone()
    bias[2 * layer.n_cells : 3 * layer.n_cells] += layer.forget_bias
    return bias
