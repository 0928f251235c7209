"""One training step after another: data, loss, gradient, update; and their whole state, to be saved."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from elmo_model.pretraining.config import TrainingOptions
from elmo_model.pretraining.distribution import Processes
from elmo_model.pretraining.gradients import window_gradients
from elmo_model.pretraining.language_model import LanguageModel, window_tensors
from elmo_model.pretraining.optimization import clip_global_norm, learning_rate, make_optimizer
from elmo_model.pretraining.sampler import LogUniformSampler
from elmo_model.pretraining.streams import Sentences, SentenceSource, WindowStream
from elmo_model.vocabulary import Vocabulary

# A loss this much (nats) above its running mean is a spike; not judged before the mean has settled.
_SPIKE = 2.0
_SETTLED_STEPS = 200
_MEAN_DECAY = 0.99


@dataclass(frozen=True)
class StepReport:
    """What happened in a step.

    Attributes:
        losses: Loss of each direction (sampled, if candidates are), mean over all processes.
        gradient_norm: Global norm of the gradient of (loss * unroll_steps), before clipping.
        rate: Learning rate.
        skipped: Why no update was made, or None.
    """

    losses: list[float]
    gradient_norm: float
    rate: float
    skipped: str | None = None

    @property
    def loss(self) -> float:
        """Mean of the directions."""
        return sum(self.losses) / len(self.losses)


class Trainer:
    """Trains a language model; deterministic by seed.

    Args:
        model: On the device it is to be trained on.
        vocabulary: The words of its softmax.
        options: Settings.
        sentences: The corpus.
        seed: Of data order, candidates and dropout.
        processes: The processes that train together; each has the same corpus and seed.
    """

    def __init__(
        self,
        model: LanguageModel,
        *,
        vocabulary: Vocabulary,
        options: TrainingOptions,
        sentences: Sentences,
        seed: int,
        processes: Processes | None = None,
    ) -> None:
        self.model = model.train()
        self.vocabulary = vocabulary
        self.options = options
        self.step_number = 0
        self.processes = processes or Processes()
        self.optimizer = make_optimizer(model.parameters(), options)
        self._device = model.softmax.weight.device
        directions = model.bilm.directions
        self.streams = [
            WindowStream(
                SentenceSource(sentences, seed=seed + index),
                rows=options.batch_size * self.processes.count,
                steps=options.unroll_steps,
                reverse=name == "backward",
            )
            for index, name in enumerate(directions)
        ]
        self.samplers = [
            LogUniformSampler(n_words=len(vocabulary), n_candidates=options.n_negative_samples_batch, seed=seed + index)
            for index, _ in enumerate(directions)
            if options.sample_softmax
        ]
        self.states = model.zero_states(options.batch_size)
        self._mean_loss: float | None = None
        self._generators = [
            torch.Generator(self._device).manual_seed(seed + index) for index, _ in enumerate(directions)
        ]

    @property
    def tokens(self) -> int:
        """Tokens each direction has read so far, of all processes."""
        return self.step_number * self.options.batch_size * self.options.unroll_steps * self.processes.count

    def step(self, *, progress: float) -> StepReport:
        """Takes one step.

        Args:
            progress: Share of the run that is over, for the learning rate.

        Raises:
            EmptyCorpusError: There is no text.
        """
        windows = [self.processes.own_rows(stream.next_window()) for stream in self.streams]
        tensors = window_tensors(
            windows, encoder=self.model.bilm.token_encoder, vocabulary=self.vocabulary, device=self._device
        )
        result = window_gradients(
            self.model,
            tensors,
            self.states,
            loss=self._loss,
            scale=self.options.unroll_steps,
            generators=self._generators,
        )
        gradients = list(result.gradients.values())
        self.processes.average_(gradients)
        norm = clip_global_norm(gradients, self.options.all_clip_norm_val)
        report = StepReport(
            losses=self.processes.average(result.losses).tolist(),
            gradient_norm=norm,
            rate=learning_rate(self.options, step=self.step_number, progress=progress),
        )
        skipped = self._why_skip(report)
        self.step_number += 1
        if skipped is not None:
            return dataclasses.replace(report, skipped=skipped)
        for group in self.optimizer.param_groups:
            group["lr"] = report.rate
        for parameter, gradient in result.gradients.items():
            parameter.grad = gradient
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.states = result.states
        mean = report.loss if self._mean_loss is None else self._mean_loss
        self._mean_loss = _MEAN_DECAY * mean + (1 - _MEAN_DECAY) * report.loss
        return report

    def _loss(self, number: int, top: Tensor, targets: Tensor) -> Tensor:
        softmax = self.model.softmax
        if not self.samplers:
            return softmax.losses(top, targets).mean()
        sampler = self.samplers[number]
        candidates = sampler.draw()
        expected = [
            torch.from_numpy(sampler.log_expected_count(ids, tries=candidates.tries)).to(self._device)
            for ids in (targets.cpu().numpy(), candidates.ids)
        ]
        return softmax.sampled_loss(
            top,
            targets,
            torch.from_numpy(candidates.ids).to(self._device),
            log_expected_targets=expected[0],
            log_expected_candidates=expected[1],
            product_dtype=self.model.product_dtype,
        )

    def _why_skip(self, report: StepReport) -> str | None:
        if not math.isfinite(report.loss) or not math.isfinite(report.gradient_norm):
            return "loss or gradient isn't finite"
        settled = self._mean_loss is not None and self.step_number >= _SETTLED_STEPS
        if settled and self._mean_loss is not None and report.loss > self._mean_loss + _SPIKE:
            return f"loss {report.loss:.2f} is far above its mean {self._mean_loss:.2f}"
        return None

    def tensors(self) -> dict[str, Tensor]:
        """Weights, optimizer and carried states by name; with `values`, all that coming steps depend on."""
        tensors = {f"model/{name}": parameter.detach() for name, parameter in self.model.named_parameters()}
        for name, parameter in self.model.named_parameters():
            for key, value in self.optimizer.state.get(parameter, {}).items():
                tensors[f"optimizer/{name}/{key}"] = value
        for key, state in self._state_names().items():
            tensors[key] = self.processes.gather(state)
        for number, generator in enumerate(self._generators):
            tensors[f"random/{number}"] = generator.get_state()
        return tensors

    def values(self) -> dict[str, Any]:
        """The rest of the state, as JSON values."""
        return {
            "step": self.step_number,
            "mean_loss": self._mean_loss,
            "streams": [stream.state() for stream in self.streams],
            "samplers": [sampler.state() for sampler in self.samplers],
        }

    @torch.no_grad()
    def restore(self, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
        """Goes on from a saved state of a run with the same options and number of processes."""
        for name, parameter in self.model.named_parameters():
            parameter.copy_(tensors[f"model/{name}"])
            prefix = f"optimizer/{name}/"
            kept = {key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)}
            if kept:
                self.optimizer.state[parameter] = {key: value.clone() for key, value in kept.items()}
        for key, state in self._state_names().items():
            state.copy_(self.processes.own_part(tensors[key]))
        for number, generator in enumerate(self._generators):
            generator.set_state(tensors[f"random/{number}"])
        self.step_number = values["step"]
        self._mean_loss = values["mean_loss"]
        for stream, saved in zip(self.streams, values["streams"], strict=True):
            stream.restore(saved)
        for sampler, saved in zip(self.samplers, values["samplers"], strict=True):
            sampler.restore(saved)

    def _state_names(self) -> dict[str, Tensor]:
        return {
            f"state/{direction}/{depth}/{kind}": tensor
            for direction, layers in zip(self.model.bilm.directions, self.states, strict=True)
            for depth, (state,) in enumerate(layers)
            for kind, tensor in state._asdict().items()
        }
