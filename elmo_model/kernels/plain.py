"""The plain definition of the projected LSTM: differentiable, in any precision; what every other kernel must equal."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from elmo_model.lstm import LstmState, ProjectedLstm


def step(layer: ProjectedLstm, inputs: Tensor, state: LstmState) -> LstmState:
    """The state after one more token of each sentence.

    With i, j, f, o the four parts of `[x; h] W + b`: `s' = clip(sigmoid(f + 1) s + sigmoid(i) tanh(j))` and
    `h' = clip(sigmoid(o) tanh(s') P)`; without a projection `h' = sigmoid(o) tanh(s')`, unclipped.

    Args:
        layer: The weights.
        inputs: The tokens (batch, p).
        state: The state before them.
    """
    sums = F.linear(torch.cat([inputs, state.hidden], dim=1), layer.weight, layer.bias)
    input_gate, candidate, forget_gate, output_gate = sums.chunk(4, dim=1)
    forget = torch.sigmoid(forget_gate + layer.forget_bias)
    cell = forget * state.cell + torch.sigmoid(input_gate) * torch.tanh(candidate)
    if layer.cell_clip is not None:
        cell = cell.clamp(-layer.cell_clip, layer.cell_clip)
    hidden = torch.sigmoid(output_gate) * torch.tanh(cell)
    if layer.projection is not None:
        hidden = F.linear(hidden, layer.projection)
        if layer.proj_clip is not None:
            hidden = hidden.clamp(-layer.proj_clip, layer.proj_clip)
    return LstmState(cell, hidden)


def run(layer: ProjectedLstm, inputs: Tensor, batch_sizes: Sequence[int], state: LstmState) -> tuple[Tensor, LstmState]:
    """One direction of a layer over packed rows: hidden states (tokens, p) and the final state of each sentence."""
    outputs = []
    ended: list[LstmState] = []  # states of sentences that have ended, those that ended first in front
    start = 0
    for rows in batch_sizes:
        if rows < len(state.cell):
            ended.append(LstmState(state.cell[rows:], state.hidden[rows:]))
            state = LstmState(state.cell[:rows], state.hidden[:rows])
        state = step(layer, inputs[start : start + rows], state)
        outputs.append(state.hidden)
        start += rows
    ended.append(state)
    final = LstmState(*(torch.cat(parts[::-1]) for parts in zip(*ended, strict=True)))
    return torch.cat(outputs), final


class PlainLayer:
    """A layer computed by the plain definition; see `interface.LayerKernel`."""

    def __init__(self, directions: Sequence[ProjectedLstm]) -> None:
        self.directions = directions

    def __call__(
        self, inputs: Sequence[Tensor], batch_sizes: Sequence[int], states: Sequence[LstmState]
    ) -> tuple[list[Tensor], list[LstmState]]:
        """Runs the directions one after the other."""
        results = [
            run(layer, rows, batch_sizes, state)
            for layer, rows, state in zip(self.directions, inputs, states, strict=True)
        ]
        return [outputs for outputs, _ in results], [final for _, final in results]
