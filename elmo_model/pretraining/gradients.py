"""The loss of a window and its gradient, each direction computed on its own thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from elmo_model.pretraining.language_model import LanguageModel, States, WindowTensors
from elmo_model.pretraining.workers import in_parallel

DirectionLoss = Callable[[int, Tensor, Tensor], Tensor]
"""Mean loss of (number of the direction, top outputs (rows, p), targets (rows,))."""

_WORD_GROUPS = 4


@dataclass(frozen=True)
class WindowResult:
    """What a window gives.

    Attributes:
        losses: Of each direction, (directions,).
        gradients: Of the scaled mean loss, by parameter.
        states: For each direction, after the window.
    """

    losses: Tensor
    gradients: dict[nn.Parameter, Tensor]
    states: list[States]


def window_gradients(
    model: LanguageModel,
    window: WindowTensors,
    states: Sequence[States],
    *,
    loss: DirectionLoss,
    scale: float,
    generators: Sequence[torch.Generator],
) -> WindowResult:
    """Losses, gradients and states of a window; the same as one backward pass through everything.

    Args:
        model: In training mode.
        window: The text.
        states: For each direction, before the window.
        loss: Loss of a direction; called from several threads.
        scale: Factor of the mean over directions, before the gradient.
        generators: For each direction, the random numbers of its dropout.
    """
    device = window.token_ids.device
    groups = in_parallel(
        model.token_vectors, window.token_ids.chunk(_WORD_GROUPS if device.type == "cpu" else 1), device=device
    )
    vectors = torch.cat([group.detach() for group in groups])

    def run_direction(number: int) -> tuple[Tensor, States, dict[nn.Parameter, Tensor], Tensor]:
        direction = model.bilm.directions[number]
        own_vectors = vectors.detach().requires_grad_()
        rows = F.embedding(window.types[number], own_vectors)
        starts = None if model.carry_state else window.starts[number]
        top, after = model.top_outputs(direction, rows, states[number], starts=starts, generator=generators[number])
        mean = loss(number, top, window.targets[number])
        stack = model.bilm.forward_layers if direction == "forward" else model.bilm.backward_layers
        parameters = [*stack.parameters(), *model.softmax.parameters()]
        grad_vectors, *gradients = torch.autograd.grad(mean * (scale / len(states)), [own_vectors, *parameters])
        return mean.detach(), after, dict(zip(parameters, gradients, strict=True)), grad_vectors

    results = in_parallel(run_direction, range(len(states)), device=device)
    grad_vectors = torch.stack([grad for *_, grad in results]).sum(dim=0)
    encoder = list(model.bilm.token_encoder.parameters())

    def run_group(pair: tuple[Tensor, Tensor]) -> dict[nn.Parameter, Tensor]:
        return dict(zip(encoder, torch.autograd.grad(pair[0], encoder, pair[1]), strict=True))

    pairs = zip(groups, torch.split(grad_vectors, [len(group) for group in groups]), strict=True)
    gradients: dict[nn.Parameter, Tensor] = {}
    for part in (*(part for _, _, part, _ in results), *in_parallel(run_group, pairs, device=device)):
        for parameter, gradient in part.items():
            gradients[parameter] = gradients[parameter].add_(gradient) if parameter in gradients else gradient
    return WindowResult(torch.stack([mean for mean, *_ in results]), gradients, [after for _, after, *_ in results])
