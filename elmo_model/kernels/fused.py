"""The fast LSTM on a CPU: one packed product over [x; h] for all gates of a step, and the cell in place.

The rest of a step is cheap next to the products once it stays in the processor's cache, so no compiler is needed. All
gates go through one sigmoid, since `tanh(a) = 2 sigmoid(2a) - 1`: the rows of the candidate are doubled beforehand,
which is exact, and a sigmoid costs a fifth of a tanh.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from elmo_model.kernels.interface import free_weights
from elmo_model.kernels.packed_linear import Linear, MakeLinear, packed_linear
from elmo_model.kernels.workers import Workers
from elmo_model.lstm import LstmState, ProjectedLstm

BLOCK_SENTENCES = 256  # products over fewer rows are slower, over more no faster
_CELL_VALUES = 2**18  # gate sums that are worked on at a time

# oneDNN prepares a product for each number of rows it meets, and keeps that: 550 kB. So rows are rounded up to even
# numbers of so many binary digits: for the gates, which are most of the work, at most a 16th more from 16 rows on, in
# 65 numbers up to 256; for the projection at most a fourth more, in 25.
_GATE_DIGITS = 5
_PROJECTION_DIGITS = 3


class FusedLayer:
    """A layer ready to compute on CPU threads; see `interface.LayerKernel`.

    Each direction of each block of `BLOCK_SENTENCES` sentences is a task of its own for one thread.

    Args:
        directions: The weights.
        dtype: Of what the products get and give, float32 or bfloat16; the cell state is float32 always.
        workers: The threads.
        linear: Makes the products from weights in that type.
        consume: Whether to empty the weights as they are taken over, so that they aren't held twice.
    """

    def __init__(
        self,
        directions: Sequence[ProjectedLstm],
        *,
        dtype: torch.dtype,
        workers: Workers,
        linear: MakeLinear = packed_linear,
        consume: bool = False,
    ) -> None:
        self._directions = [_ready(layer, dtype, linear, consume=consume) for layer in directions]
        self._workers = workers

    def __call__(
        self, inputs: Sequence[Tensor], batch_sizes: Sequence[int], states: Sequence[LstmState]
    ) -> tuple[list[Tensor], list[LstmState]]:
        """Runs all directions and blocks over the threads."""
        outputs = [torch.empty_like(rows) for rows in inputs]
        final = [LstmState(torch.empty_like(cell), torch.empty_like(hidden)) for cell, hidden in states]
        tasks = [
            _Block(weights, rows, batch_sizes, before, first, output, after)
            for first in range(0, batch_sizes[0], BLOCK_SENTENCES)
            for weights, rows, before, output, after in zip(
                self._directions, inputs, states, outputs, final, strict=True
            )
        ]
        self._workers.map(_run, tasks)
        return outputs, final


class _Direction(NamedTuple):
    """The weights of one direction: gates from [x; h], (2p) to (4c), and the projection to h, (c) to (p), if any."""

    gates: Linear
    projection: Linear | None
    cell_clip: float | None
    dtype: torch.dtype


class _Block(NamedTuple):
    """Sentences `first` to `first + BLOCK_SENTENCES` of a batch in one direction, and where their results go."""

    weights: _Direction
    inputs: Tensor
    batch_sizes: Sequence[int]
    before: LstmState
    first: int
    outputs: Tensor
    after: LstmState


def _ready(layer: ProjectedLstm, dtype: torch.dtype, linear: MakeLinear, *, consume: bool) -> _Direction:
    weight, bias = layer.weight.detach(), layer.bias.detach().clone().view(4, layer.n_cells)
    weight = (weight if consume else weight.clone()).view(4, layer.n_cells, -1)
    for gates in (weight, bias):
        gates[1] *= 2
    bias[2] += layer.forget_bias
    projection = None
    if layer.projection is not None:
        projection = linear(layer.projection.detach().to(dtype), None, clip=layer.proj_clip)
    sums = linear(weight.flatten(0, 1).to(dtype), bias.flatten().to(dtype), clip=None)
    if consume:
        free_weights(layer)
    return _Direction(gates=sums, projection=projection, cell_clip=layer.cell_clip, dtype=dtype)


def _run(block: _Block) -> None:
    """Computes a block from its first step to the end of its longest sentence."""
    weights, first, width = block.weights, block.first, block.inputs.shape[1]
    cell = block.before.cell[first : first + BLOCK_SENTENCES].clone()
    active = len(cell)
    joined = torch.zeros(_rounded(active, _GATE_DIGITS), 2 * width, dtype=weights.dtype)  # [x; h]
    joined[:active, width:] = block.before.hidden[first : first + BLOCK_SENTENCES]
    opened = torch.zeros(_rounded(active, _PROJECTION_DIGITS), cell.shape[1], dtype=weights.dtype)
    start = 0
    for size in block.batch_sizes:
        rows = min(size - first, active)
        if rows < active:
            _keep(block.after, first, max(rows, 0), cell[:active], joined[:active, width:])
            active = rows
        if active <= 0:
            return
        here = slice(start + first, start + first + rows)
        joined[:rows, :width] = block.inputs[here]
        sums = weights.gates(joined[: _rounded(rows, _GATE_DIGITS)])
        _cell(sums[:rows], cell[:rows], opened[:rows], clip=weights.cell_clip)
        hidden = opened
        if weights.projection is not None:
            hidden = weights.projection(opened[: _rounded(rows, _PROJECTION_DIGITS)])
        hidden = hidden[:rows]
        joined[:rows, width:] = hidden
        block.outputs[here] = hidden
        start += size
    _keep(block.after, first, 0, cell[:active], joined[:active, width:])


def _rounded(rows: int, digits: int) -> int:
    """1, or the next even number that has, but for zeros at its end, at most so many binary digits."""
    unit = 1 << max(1, rows.bit_length() - digits) if rows > 1 else 1
    return -(-rows // unit) * unit


def _cell(sums: Tensor, cell: Tensor, opened: Tensor, *, clip: float | None) -> None:
    """Moves the cell state (rows, c) on in place, given the gates' sums (rows, 4c), and fills what goes out of it."""
    at_once = max(1, _CELL_VALUES // sums.shape[1])
    chunks = (torch.split(values, at_once) for values in (sums, cell, opened))
    for part, state, out in zip(*chunks, strict=True):
        input_gate, candidate, forget_gate, output_gate = part.float().sigmoid_().chunk(4, dim=1)
        state.mul_(forget_gate).addcmul_(input_gate, candidate.mul_(2).sub_(1))
        if clip is not None:
            state.clamp_(-clip, clip)
        out.copy_(torch.mul(state, 2).sigmoid_().mul_(2).sub_(1).mul_(output_gate))


def _keep(after: LstmState, first: int, rows: int, cell: Tensor, hidden: Tensor) -> None:
    """Notes the state of the sentences of a block from row `rows` on, which have ended."""
    ended = slice(first + rows, first + len(cell))
    after.cell[ended] = cell[rows:]
    after.hidden[ended] = hidden[rows:]
