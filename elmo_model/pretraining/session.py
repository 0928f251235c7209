"""A training run from start or checkpoint to its end: steps, validations, checkpoints and the record of them."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elmo_model.pretraining.checkpoint import Checkpoint, CheckpointError, load_checkpoint, save_checkpoint
from elmo_model.pretraining.evaluation import Perplexity
from elmo_model.pretraining.trainer import StepReport, Trainer

METRICS_FILE = "metrics.jsonl"
CHECKPOINTS_FOLDER = "checkpoints"

Row = dict[str, Any]
"""One line of the record: its `kind` is `train`, `skip` or `validation`; all have `step`, `tokens` and `progress`."""


@dataclass(frozen=True, kw_only=True)
class Length:
    """How long a run is: a number of steps, or of hours on the clock, interruptions not counted."""

    steps: int | None = None
    hours: float | None = None

    def __post_init__(self) -> None:
        if (self.steps is None) == (self.hours is None):
            raise ValueError("a run is bounded by steps or by hours, and not by both")

    def progress(self, *, steps: int, seconds: float) -> float:
        """Share of the run that is over, 1 at its end."""
        if self.steps is not None:
            return steps / self.steps
        return seconds / (3600 * (self.hours or 1))


@dataclass(frozen=True, kw_only=True)
class Intervals:
    """How often things happen.

    Attributes:
        report_steps: Steps between two `train` rows.
        checkpoint_seconds: Between two checkpoints; one is written at the end in any case.
        validation_seconds: Between two validations; one is made at the end in any case.
    """

    report_steps: int = 50
    checkpoint_seconds: float = 600.0
    validation_seconds: float = 1200.0


class Session:
    """A run in a folder.

    Args:
        trainer: At its start.
        folder: Where checkpoints and record go.
        length: When it ends.
        settings: What a checkpoint must have been started with to be resumed, by name.
        validate: Perplexity on held-out text; None for none.
        intervals: How often.
    """

    def __init__(
        self,
        trainer: Trainer,
        folder: str | Path,
        *,
        length: Length,
        settings: dict[str, Any],
        validate: Callable[[], Perplexity] | None = None,
        intervals: Intervals | None = None,
    ) -> None:
        self.trainer = trainer
        self._folder = Path(folder)
        self._length = length
        self._settings = json.loads(json.dumps(settings))
        self._validate = validate
        self._intervals = intervals or Intervals()
        self._leads = trainer.processes.rank == 0
        self.seconds = 0.0
        self.finished = False

    def resume(self) -> None:
        """Goes to the last checkpoint in the folder.

        Raises:
            CheckpointError: There is none, it is damaged, or of a run with other settings.
        """
        checkpoint = load_checkpoint(self._folder / CHECKPOINTS_FOLDER)
        if checkpoint is None:
            raise CheckpointError(f"{self._folder}: holds no checkpoint to resume from")
        there = checkpoint.values["settings"]
        differing = [name for name in {**there, **self._settings} if there.get(name) != self._settings.get(name)]
        if differing:
            shown = "; ".join(
                f"{name} was {_short(there.get(name))}, now {_short(self._settings.get(name))}" for name in differing
            )
            raise CheckpointError(f"{self._folder}: its checkpoint is of a run with other settings: {shown}")
        self.trainer.restore(checkpoint.tensors, checkpoint.values["trainer"])
        self.seconds = checkpoint.values["seconds"]
        self._forget_rows_after(self.trainer.step_number)

    def run(self, *, stop: Callable[[], bool] = lambda: False) -> Iterator[Row]:
        """Trains to the end, or until told to stop; either way the last thing done is a checkpoint.

        Args:
            stop: Asked before each step.

        Yields:
            The rows of the record, once they are written.

        Raises:
            CheckpointError: A checkpoint can't be written; the one before it is intact.
            EmptyCorpusError: The corpus holds no text.
        """
        processes = self.trainer.processes
        last = time.monotonic()
        checkpoint_due = last + self._intervals.checkpoint_seconds
        validation_due = last + self._intervals.validation_seconds
        reports: list[StepReport] = []
        reported = last
        while True:
            progress = processes.of_leader(self._length.progress(steps=self.trainer.step_number, seconds=self.seconds))
            self.finished = progress >= 1
            if self.finished or processes.agree(stop()):
                break
            report = self.trainer.step(progress=progress)
            now = time.monotonic()
            self.seconds += now - last
            last = now
            reports.append(report)
            if report.skipped is not None:
                yield self._record("skip", reason=report.skipped, loss=report.loss)
            if self.trainer.step_number % self._intervals.report_steps == 0:
                yield self._training_row(reports, now - reported)
                reports, reported = [], now
            if processes.agree(now >= checkpoint_due):
                self._save()
                checkpoint_due = time.monotonic() + self._intervals.checkpoint_seconds
            if self._validate is not None and processes.agree(now >= validation_due):
                yield self._validation_row(self._validate)
                validation_due = time.monotonic() + self._intervals.validation_seconds
        self._save()
        if reports:
            yield self._training_row(reports, last - reported)
        if self.finished and self._validate is not None:
            yield self._validation_row(self._validate)

    def _training_row(self, reports: list[StepReport], seconds: float) -> Row:
        kept = [report for report in reports if report.skipped is None]
        tokens = len(reports) * self.trainer.tokens // max(1, self.trainer.step_number)
        return self._record(
            "train",
            **{"sampled_loss" if self.trainer.samplers else "loss": _mean([report.loss for report in kept])},
            gradient_norm=_mean([report.gradient_norm for report in kept]),
            learning_rate=reports[-1].rate,
            tokens_per_second=tokens / seconds,
        )

    def _validation_row(self, validate: Callable[[], Perplexity]) -> Row:
        perplexity = validate()
        self.trainer.model.train()
        return self._record("validation", mean=perplexity.mean, **perplexity.by_direction)

    def _record(self, kind: str, **values: Any) -> Row:
        row = {
            "kind": kind,
            "step": self.trainer.step_number,
            "tokens": self.trainer.tokens,
            "epoch": self.trainer.epoch,
            "seconds": round(self.seconds, 1),
            "progress": self._length.progress(steps=self.trainer.step_number, seconds=self.seconds),
            **values,
        }
        if self._leads:
            with open(self._folder / METRICS_FILE, "a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
        return row

    def _save(self) -> None:
        tensors = self.trainer.tensors()
        if self._leads:
            values = {"settings": self._settings, "seconds": self.seconds, "trainer": self.trainer.values()}
            save_checkpoint(
                self._folder / CHECKPOINTS_FOLDER, Checkpoint(tensors, values), step=self.trainer.step_number
            )

    def _forget_rows_after(self, step: int) -> None:
        """Steps after the checkpoint are taken again, and so recorded again."""
        path = self._folder / METRICS_FILE
        if not self._leads or not path.is_file():
            return
        kept = [
            line
            for line in path.read_text(encoding="utf-8").splitlines(keepends=True)
            if json.loads(line)["step"] <= step
        ]
        unfinished = path.with_name(f".{METRICS_FILE}.unfinished")
        unfinished.write_text("".join(kept), encoding="utf-8")
        os.replace(unfinished, path)


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else float("nan")


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 200 else f"{text[:200]}..."
