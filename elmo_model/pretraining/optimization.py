"""The optimizers and the learning rate over a run."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import Tensor, nn

from elmo_model.pretraining.config import TrainingOptions

_FINAL_SHARE = 0.02


def make_optimizer(parameters: Iterable[nn.Parameter], options: TrainingOptions) -> torch.optim.Optimizer:
    """Adagrad as published (accumulators start at 1, nothing added to the root), or Adam with a short memory."""
    if options.optimizer == "adagrad":
        return torch.optim.Adagrad(parameters, lr=options.learning_rate, initial_accumulator_value=1.0, eps=0.0)
    return torch.optim.Adam(parameters, lr=options.learning_rate, betas=(0.9, 0.99), fused=True)


def learning_rate(options: TrainingOptions, *, step: int, progress: float) -> float:
    """The rate of a step.

    Args:
        options: The run's settings.
        step: Steps taken before it.
        progress: Share of the run that is over, 0 to 1.
    """
    rate = options.learning_rate
    if options.schedule == "cosine":
        rate *= _FINAL_SHARE + (1 - _FINAL_SHARE) * (1 + math.cos(math.pi * min(progress, 1.0))) / 2
    return rate * min(1.0, (step + 1) / (options.warmup_steps + 1))


def clip_global_norm(gradients: list[Tensor], bound: float | None) -> float:
    """The norm of all gradients together, which are scaled in place to `bound` if they exceed it."""
    norm = float(torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(gradient) for gradient in gradients])))
    if bound is not None and norm > bound:
        torch._foreach_mul_(gradients, bound / norm)
    return norm
