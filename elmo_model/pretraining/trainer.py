"""One training step after another: data, loss, gradient, update; and their whole state, to be saved."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from elmo_model.pretraining.config import TrainingOptions
from elmo_model.pretraining.distribution import Processes
from elmo_model.pretraining.gradients import window_gradients
from elmo_model.pretraining.language_model import LanguageModel, WindowTensors, window_tensors
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


@dataclass(frozen=True)
class _Candidates:
    """Of one direction: word ids (candidates,), and logarithms of expected counts of targets and candidates."""

    ids: Tensor
    log_expected_targets: Tensor
    log_expected: Tensor


@dataclass(frozen=True)
class _Batch:
    """What a step reads, in host memory, and where the data stand behind it."""

    window: WindowTensors
    candidates: list[_Candidates]
    streams: list[dict[str, Any]]
    samplers: list[dict[str, Any]]


class Trainer:
    """Trains a language model; deterministic by seed.

    While an accelerator computes a step, the next one's data are made; on a CPU that would take a core from the step.

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
        self._reader = ThreadPoolExecutor(1)
        self._coming: Future[_Batch] | None = None
        self._streams_at = [stream.state() for stream in self.streams]
        self._samplers_at = [sampler.state() for sampler in self.samplers]
        self._generators = [
            torch.Generator(self._device).manual_seed(seed + index) for index, _ in enumerate(directions)
        ]

    @property
    def tokens(self) -> int:
        """Tokens each direction has read so far, of all processes."""
        return self.step_number * self.options.batch_size * self.options.unroll_steps * self.processes.count

    @property
    def epoch(self) -> int:
        """The pass over the corpus that the first direction's data are of, from 0."""
        epoch: int = self._streams_at[0]["source"]["epoch"]
        return epoch

    def step(self, *, progress: float) -> StepReport:
        """Takes one step.

        Args:
            progress: Share of the run that is over, for the learning rate.

        Raises:
            EmptyCorpusError: There is no text.
        """
        batch = self._read_batch() if self._coming is None else self._coming.result()
        if self._device.type != "cpu":
            self._coming = self._reader.submit(self._read_batch)
        self._streams_at, self._samplers_at = batch.streams, batch.samplers
        result = window_gradients(
            self.model,
            batch.window.to(self._device),
            self.states,
            loss=partial(self._loss, batch.candidates),
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
            parameter.grad = gradient.contiguous()  # fused optimizers on a GPU take no other layout
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.states = result.states
        mean = report.loss if self._mean_loss is None else self._mean_loss
        self._mean_loss = _MEAN_DECAY * mean + (1 - _MEAN_DECAY) * report.loss
        return report

    def _read_batch(self) -> _Batch:
        windows = [self.processes.own_rows(stream.next_window()) for stream in self.streams]
        window = window_tensors(windows, encoder=self.model.bilm.token_encoder, vocabulary=self.vocabulary)
        candidates = []
        for sampler, targets in zip(self.samplers, window.targets, strict=False):  # no sampler, or one for each
            drawn = sampler.draw()
            expected = [
                torch.from_numpy(sampler.log_expected_count(ids, tries=drawn.tries))
                for ids in (targets.numpy(), drawn.ids)
            ]
            candidates.append(_Candidates(torch.from_numpy(drawn.ids), *expected))
        return _Batch(
            window,
            candidates,
            streams=[stream.state() for stream in self.streams],
            samplers=[sampler.state() for sampler in self.samplers],
        )

    def _loss(self, candidates: Sequence[_Candidates], number: int, top: Tensor, targets: Tensor) -> Tensor:
        softmax = self.model.softmax
        if not candidates:
            return softmax.losses(top, targets).mean()
        own = candidates[number]
        return softmax.sampled_loss(
            top,
            targets,
            own.ids.to(self._device),
            log_expected_targets=own.log_expected_targets.to(self._device),
            log_expected_candidates=own.log_expected.to(self._device),
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
            "streams": self._streams_at,
            "samplers": self._samplers_at,
        }

    @torch.no_grad()
    def restore(self, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
        """Goes on from a saved state of a run with the same options and number of processes."""
        fused = self.optimizer.defaults.get("fused")
        for name, parameter in self.model.named_parameters():
            parameter.copy_(tensors[f"model/{name}"])
            prefix = f"optimizer/{name}/"
            kept = {key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)}
            if kept:
                self.optimizer.state[parameter] = {
                    # Optimizers that aren't fused count their steps in host memory.
                    key: value.clone() if key == "step" and not fused else value.to(parameter.device, copy=True)
                    for key, value in kept.items()
                }
        for key, state in self._state_names().items():
            state.copy_(self.processes.own_part(tensors[key]))
        for number, generator in enumerate(self._generators):
            generator.set_state(tensors[f"random/{number}"])
        self.step_number = values["step"]
        self._mean_loss = values["mean_loss"]
        if self._coming is not None:
            self._coming.exception()  # it is over, and what it read is read again
            self._coming = None
        self._streams_at, self._samplers_at = values["streams"], values["samplers"]
        for stream, saved in zip(self.streams, self._streams_at, strict=True):
            stream.restore(saved)
        for sampler, saved in zip(self.samplers, self._samplers_at, strict=True):
            sampler.restore(saved)

    def _state_names(self) -> dict[str, Tensor]:
        return {
            f"state/{direction}/{depth}/{kind}": tensor
            for direction, layers in zip(self.model.bilm.directions, self.states, strict=True)
            for depth, (state,) in enumerate(layers)
            for kind, tensor in state._asdict().items()
        }
