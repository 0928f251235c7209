"""The step of the LSTM between its two products, on an accelerator: one fused kernel where Triton is installed.

Torch's CUDA builds bring Triton along. Without it the same is computed by a dozen operations of torch, each of which
reads and writes the gates anew: slower, not different.
"""

from __future__ import annotations

import torch
from torch import Tensor

try:
    import triton
    import triton.language as tl
except ImportError:
    triton = None

_BLOCK = 1024


def advance(sums: Tensor, bias: Tensor, cell: Tensor, *, cell_clip: float | None, fused: bool) -> Tensor:
    """Moves the cells on by one token, in place; gives sigmoid(o) tanh(s'), (directions, rows, c), typed like `sums`.

    Args:
        sums: [x; h] W, (directions, rows, 4c), contiguous, gates in the order input, candidate, forget, output.
        bias: With the forget bias in it, float32 (directions, 4c), contiguous.
        cell: State s, float32 (directions, rows, c); rows are contiguous.
        cell_clip: Bound on the state, or None.
        fused: Whether to use the fused kernel, which needs Triton and its device.
    """
    if not fused:
        return _advance_plainly(sums, bias, cell, cell_clip)
    directions, rows, cells = cell.shape
    opened = sums.new_empty(directions, rows, cells)
    _advance_fused[(triton.cdiv(rows * cells, _BLOCK), directions)](
        sums,
        bias,
        cell,
        opened,
        rows * cells,
        cells,
        cell.stride(0),
        float("inf") if cell_clip is None else cell_clip,
        BLOCK=_BLOCK,
    )
    return opened


def has_fused() -> bool:
    """Whether Triton is there."""
    return triton is not None


def _advance_plainly(sums: Tensor, bias: Tensor, cell: Tensor, cell_clip: float | None) -> Tensor:
    gates = sums.float() + bias[:, None]
    input_gate, candidate, forget_gate, output_gate = gates.chunk(4, dim=2)
    cell.mul_(forget_gate.sigmoid_()).add_(input_gate.sigmoid_().mul_(candidate.tanh_()))
    if cell_clip is not None:
        cell.clamp_(-cell_clip, cell_clip)
    return torch.tanh(cell).mul_(output_gate.sigmoid_()).to(sums.dtype)


if triton is not None:

    @triton.jit
    def _tanh(x):  # type: ignore[no-untyped-def]
        return 2.0 * tl.sigmoid(2.0 * x) - 1.0

    @triton.jit  # type: ignore[untyped-decorator]
    def _advance_fused(sums, bias, cell, opened, size, cells, cell_stride, clip, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
        direction = tl.program_id(1).to(tl.int64)
        place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        inside = place < size
        column = place % cells
        gates = sums + direction * size * 4 + (place - column).to(tl.int64) * 4 + column
        biases = bias + direction * cells * 4 + column
        enter = tl.load(gates, inside).to(tl.float32) + tl.load(biases, inside)
        candidate = tl.load(gates + cells, inside).to(tl.float32) + tl.load(biases + cells, inside)
        forget = tl.load(gates + 2 * cells, inside).to(tl.float32) + tl.load(biases + 2 * cells, inside)
        leave = tl.load(gates + 3 * cells, inside).to(tl.float32) + tl.load(biases + 3 * cells, inside)
        own = cell + direction * cell_stride + place
        state = tl.sigmoid(forget) * tl.load(own, inside) + tl.sigmoid(enter) * _tanh(candidate)
        state = tl.minimum(tl.maximum(state, -clip), clip)
        tl.store(own, state, inside)
        tl.store(opened + direction * size + place, tl.sigmoid(leave) * _tanh(state), inside)
