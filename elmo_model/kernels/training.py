"""The training kernel: one LSTM layer over a window of steps, with its own gradient.

Equal to `kernels.plain` step by step. It is fast because a step is one product over [x; h] and one sigmoid over all
gates (tanh(a) = 2 sigmoid(2a) - 1), and because only the recurrent product of the gradient stays inside the loop: the
gradients of weights and inputs are one large product each over all steps. Products may be in bfloat16; gates, states
and their gradients stay in float32. On a CUDA device the loops are recorded once and replayed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from elmo_model.kernels.packed_linear import Linear, packed_linear
from elmo_model.kernels.recording import record
from elmo_model.lstm import LstmState, ProjectedLstm


class WindowLayer:
    """A layer over batches whose sentences are all of one length; see `interface.LayerKernel`.

    The final states carry no gradient, and the states given receive none. On a CUDA device a window's gradient must be
    taken before the next window is run.

    Args:
        directions: The weights, one set for each direction.
        product_dtype: Type of the matrix products.
    """

    def __init__(self, directions: Sequence[ProjectedLstm], *, product_dtype: torch.dtype) -> None:
        self._directions = directions
        self._windows: list[_Window] = []
        for layer in directions:
            window = _Loops(layer.forget_bias, layer.cell_clip, layer.proj_clip, product_dtype)
            self._windows.append(_RecordedLoops(window) if layer.weight.is_cuda else window)

    def __call__(
        self,
        inputs: Sequence[Tensor],
        batch_sizes: Sequence[int],
        states: Sequence[LstmState],
        *,
        keep: Tensor | None = None,
    ) -> tuple[list[Tensor], list[LstmState]]:
        """Runs the directions one after the other.

        Args:
            inputs: For each direction, rows (time * batch, p).
            batch_sizes: `batch`, `time` times.
            states: For each direction, before the first step.
            keep: Factors of the state before each step, float (time, batch, 1): 0 makes a row start anew, 1 goes on.
        """
        results = [
            _LstmWindow.apply(  # type: ignore[no-untyped-call]
                rows.view(len(batch_sizes), batch_sizes[0], layer.width),
                *state,
                layer.weight,
                layer.bias,
                layer.projection,
                keep,
                window,
            )
            for layer, window, rows, state in zip(self._directions, self._windows, inputs, states, strict=True)
        ]
        return [outputs.flatten(0, 1) for outputs, _, _ in results], [LstmState(*state) for _, *state in results]


Tensors = tuple[Tensor, ...]


class _Given(NamedTuple):
    """Inputs (time, batch, p), cell (batch, c) and hidden (batch, p) before them, and what `keep` is of a layer."""

    inputs: Tensor
    cell: Tensor
    hidden: Tensor
    keep: Tensor | None

    def clone(self) -> _Given:
        keep = None if self.keep is None else self.keep.clone()
        return _Given(self.inputs.clone(), self.cell.clone(), self.hidden.clone(), keep)


class _Weights(NamedTuple):
    weight: Tensor
    bias: Tensor
    projection: Tensor | None

    def detach(self) -> _Weights:
        projection = None if self.projection is None else self.projection.detach()
        return _Weights(self.weight.detach(), self.bias.detach(), projection)


class _Window(Protocol):
    def forward(self, given: _Given, weights: _Weights) -> tuple[Tensors, Tensors]:
        """Outputs (time, batch, p), last cell (batch, c) and hidden (batch, p); and what `backward` needs of them."""

    def backward(
        self, keep: Tensor | None, weights: _Weights, kept: Tensors, grad_outputs: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        """Gradients of inputs (time, batch, p), weight, bias and projection."""


class _LstmWindow(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        inputs: Tensor,
        cell: Tensor,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor,
        projection: Tensor | None,
        keep: Tensor | None,
        window: _Window,
    ) -> Tensors:
        weights = _Weights(weight, bias, projection)
        results, kept = window.forward(_Given(inputs, cell, hidden, keep), weights)
        ctx.window = window
        ctx.save_for_backward(keep, *weights, *kept)
        ctx.mark_non_differentiable(*results[1:])
        return results

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_outputs: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        keep, weight, bias, projection, *kept = ctx.saved_tensors
        weights = _Weights(weight, bias, projection)
        grad_inputs, *gradients = ctx.window.backward(keep, weights, tuple(kept), grad_outputs)
        return (grad_inputs, None, None, *gradients, None, None)


@dataclass(frozen=True)
class _Loops:
    """Holds candidates as u = sigmoid(2a), so that all four gates have the derivative u (1 - u)."""

    forget_bias: float
    cell_clip: float | None
    proj_clip: float | None
    dtype: torch.dtype

    def forward(self, given: _Given, weights: _Weights) -> tuple[Tensors, Tensors]:
        inputs, cell, hidden, keep = given
        weight, bias, projection = weights
        time, batch, width = inputs.shape
        cells = cell.shape[1]
        scaled_weight = weight.to(self.dtype, copy=True)
        scaled_weight[cells : 2 * cells] *= 2
        shift = bias.clone()
        shift[cells : 2 * cells] *= 2
        shift[2 * cells : 3 * cells] += self.forget_bias
        gates_of = _product(scaled_weight)
        hidden_of = None if projection is None else _product(projection.to(self.dtype), clip=self.proj_clip)

        xh = inputs.new_empty(time, batch, 2 * width, dtype=self.dtype)  # [x_t; h_(t-1)]
        xh[..., :width] = inputs
        gates = inputs.new_empty(time, batch, 4 * cells)
        states = inputs.new_empty(time + 1, batch, cells)
        squashed = inputs.new_empty(time, batch, cells)  # tanh(state)
        opened = inputs.new_empty(time, batch, cells, dtype=self.dtype)  # sigmoid(o) tanh(state)
        outputs = inputs.new_empty(time, batch, width)
        states[0] = cell
        kept_of = _kept(keep)
        for step in range(time):
            before = kept_of(states[step], step)
            xh[step, :, width:] = kept_of(hidden, step)
            gate = gates[step].copy_(gates_of(xh[step])).add_(shift).sigmoid_()
            enter, candidate, forget, leave = gate.chunk(4, dim=1)
            state = torch.mul(forget, before, out=states[step + 1])
            state.addcmul_(enter, candidate, value=2).sub_(enter)
            if self.cell_clip is not None:
                state.clamp_(-self.cell_clip, self.cell_clip)
            squash = torch.mul(state, 2, out=squashed[step]).sigmoid_().mul_(2).sub_(1)
            opened[step] = leave * squash
            hidden = outputs[step]
            hidden.copy_(opened[step] if hidden_of is None else hidden_of(opened[step]))
        kept = xh, gates, states, squashed, opened, outputs
        return (outputs, states[-1].clone(), hidden.clone()), kept

    def backward(
        self, keep: Tensor | None, weights: _Weights, kept: Tensors, grad_outputs: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        weight, _, projection = weights
        xh, gates, states, squashed, opened, outputs = kept
        time, batch, width = grad_outputs.shape
        cells = states.shape[2]
        recurrent_of = _product(weight[:, width:].to(self.dtype).t())
        opened_of = None if projection is None else _product(projection.to(self.dtype).t())

        grad_gates = gates.new_empty(gates.shape, dtype=self.dtype)
        grad_hiddens = gates.new_empty(outputs.shape, dtype=self.dtype)
        grad_bias = torch.zeros_like(gates[0, 0])
        grad_state = torch.zeros_like(states[0])
        grad_recurrent: Tensor | None = None
        factor, slope, inside = torch.empty_like(gates[0]), torch.empty_like(gates[0]), torch.empty_like(states[0])
        enter_factor, candidate_factor, forget_factor, leave_factor = factor.chunk(4, dim=1)
        kept_of = _kept(keep)
        for step in reversed(range(time)):
            gate, squash = gates[step], squashed[step]
            enter, candidate, forget, leave = gate.chunk(4, dim=1)
            grad_hidden = grad_outputs[step] if grad_recurrent is None else grad_outputs[step] + grad_recurrent
            if opened_of is not None and self.proj_clip is not None:
                grad_hidden = grad_hidden * (outputs[step].abs() < self.proj_clip)
            grad_hiddens[step] = grad_hidden
            grad_opened = grad_hidden
            if opened_of is not None:
                grad_opened = opened_of(grad_hiddens[step]).to(gates.dtype)
            torch.mul(grad_opened, squash, out=leave_factor)
            grad_squash = torch.mul(grad_opened, leave, out=inside)
            grad_state.add_(grad_squash).sub_(grad_squash.mul_(squash).mul_(squash))
            if self.cell_clip is not None:
                grad_state.mul_(torch.abs(states[step + 1], out=inside).lt_(self.cell_clip))
            torch.mul(grad_state, candidate, out=enter_factor).mul_(2).sub_(grad_state)
            torch.mul(grad_state, enter, out=candidate_factor).mul_(4)
            torch.mul(grad_state, kept_of(states[step], step), out=forget_factor)
            grad_state = kept_of(grad_state.mul_(forget), step)
            factor.mul_(torch.addcmul(gate, gate, gate, value=-1, out=slope))
            grad_bias += factor.sum(dim=0)
            grad_gates[step] = factor
            grad_recurrent = kept_of(recurrent_of(grad_gates[step]), step)

        flat_gates = grad_gates.view(time * batch, 4 * cells)
        grad_inputs = torch.mm(flat_gates, weight[:, :width].to(self.dtype)).view(grad_outputs.shape)
        grad_weight = torch.mm(flat_gates.t(), xh.view(time * batch, 2 * width))
        grad_projection = None
        if projection is not None:
            grad_projection = torch.mm(grad_hiddens.view(-1, width).t(), opened.view(-1, cells)).to(projection.dtype)
        return grad_inputs.to(grad_outputs.dtype), grad_weight.to(weight.dtype), grad_bias, grad_projection


def _product(weight: Tensor, *, clip: float | None = None) -> Linear:
    """A function from rows to `clip(rows @ weight.T)`; laid out for many uses where oneDNN computes it."""
    if weight.device.type == "cpu" and weight.dtype in (torch.float32, torch.bfloat16):
        return packed_linear(weight, None, clip=clip)

    def product(rows: Tensor) -> Tensor:
        found = torch.mm(rows, weight.t())
        return found if clip is None else found.clamp_(-clip, clip)

    return product


def _kept(keep: Tensor | None) -> Callable[[Tensor, int], Tensor]:
    """A function from values of all rows and a step to what is kept of them there: 0 in rows that start anew."""
    if keep is None:
        return lambda values, step: values
    if keep.device.type != "cpu":  # recorded work can't depend on which rows these are
        return lambda values, step: values * keep[step]
    starting = [rows.nonzero().flatten() for rows in keep[..., 0] == 0]
    return lambda values, step: values.index_fill(0, starting[step], 0) if len(starting[step]) else values


class _RecordedLoops:
    """The loops recorded as two CUDA graphs for the shape and weights seen last; each run overwrites the one before."""

    def __init__(self, loops: _Loops) -> None:
        self._loops = loops
        self._recorded_for: tuple[Any, ...] = ()
        self._runs = 0

    def forward(self, given: _Given, weights: _Weights) -> tuple[Tensors, Tensors]:
        wanted = given.inputs.shape, given.keep is None, weights.weight.data_ptr()
        if self._recorded_for != wanted:
            self._record(given.clone(), weights.detach())
            self._recorded_for = wanted
        for own, part in zip(self._given, given, strict=True):
            if own is not None and part is not None:
                own.copy_(part)
        self._replay_forward()
        self._runs += 1
        return tuple(result.clone() for result in self._results), (torch.tensor(self._runs),)

    def backward(
        self, keep: Tensor | None, weights: _Weights, kept: Tensors, grad_outputs: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        if int(kept[0]) != self._runs:
            raise RuntimeError("another window was run since; take a window's gradient before the next one is run")
        self._grad_outputs.copy_(grad_outputs)
        self._replay_backward()
        inputs, weight, bias, projection = self._gradients
        return inputs.clone(), weight.clone(), bias.clone(), None if projection is None else projection.clone()

    def _record(self, given: _Given, weights: _Weights) -> None:
        device = given.inputs.device
        self._given = given
        self._replay_forward, (self._results, kept) = record(lambda: self._loops.forward(given, weights), device)
        self._grad_outputs = torch.zeros_like(self._results[0])
        self._replay_backward, self._gradients = record(
            lambda: self._loops.backward(given.keep, weights, kept, self._grad_outputs), device
        )
