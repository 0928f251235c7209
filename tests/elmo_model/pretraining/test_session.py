"""Runs: their length, their record, stopping and going on."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from elmo_model.pretraining.checkpoint import CheckpointError
from elmo_model.pretraining.evaluation import Perplexity, perplexity
from elmo_model.pretraining.session import Intervals, Length, Row, Session
from elmo_model.pretraining.trainer import Trainer
from support.pretraining import TRAINING, read_lines, small_trainer

LINES = read_lines(TRAINING / "train.txt")
HELDOUT = read_lines(TRAINING / "heldout.txt")
OFTEN = Intervals(report_steps=5, checkpoint_seconds=1e9, validation_seconds=1e9)


def session(folder: Path, *, steps: int = 20, settings: dict[str, Any] | None = None) -> Session:
    trainer = small_trainer(LINES, sample_softmax=True)

    def validate() -> Perplexity:
        return perplexity(trainer.model, HELDOUT, vocabulary=trainer.vocabulary)

    return Session(
        trainer,
        folder,
        length=Length(steps=steps),
        settings=settings or {"batch_size": 3},
        validate=validate,
        intervals=OFTEN,
    )


def stop_after(trainer: Trainer, steps: int) -> Any:
    return lambda: trainer.step_number >= steps


def recorded(folder: Path) -> list[Row]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_a_run_records_sampled_losses_speed_and_a_last_validation(tmp_path: Path) -> None:
    run = session(tmp_path)
    rows = list(run.run())
    assert run.finished
    assert rows == recorded(tmp_path)
    assert [(row["kind"], row["step"]) for row in rows] == [
        *(("train", step) for step in (5, 10, 15, 20)),
        ("validation", 20),
    ]
    assert all(row["sampled_loss"] > 0 and row["tokens_per_second"] > 0 for row in rows[:-1])
    assert rows[-1]["tokens"] == 20 * 3 * 6
    assert rows[-1]["mean"] == pytest.approx((rows[-1]["forward"] + rows[-1]["backward"]) / 2)


def test_a_stopped_and_resumed_run_equals_one_that_went_through(tmp_path: Path) -> None:
    straight = session(tmp_path / "straight")
    (tmp_path / "straight").mkdir()
    (tmp_path / "parts").mkdir()
    list(straight.run())

    first = session(tmp_path / "parts")
    list(first.run(stop=stop_after(first.trainer, 7)))
    assert not first.finished
    second = session(tmp_path / "parts")
    second.resume()
    assert second.trainer.step_number == 7
    list(second.run())

    for (name, here), (_, there) in zip(
        straight.trainer.model.named_parameters(), second.trainer.model.named_parameters(), strict=True
    ):
        assert torch.equal(here, there), name
    losses = [[row.get("mean") for row in recorded(tmp_path / name)] for name in ("straight", "parts")]
    assert losses[0][-1] == losses[1][-1]


def test_rows_after_the_checkpoint_are_forgotten_on_resuming(tmp_path: Path) -> None:
    first = session(tmp_path)
    list(first.run(stop=stop_after(first.trainer, 12)))
    lost = {"kind": "train", "step": 15, "sampled_loss": 0.0}
    with open(tmp_path / "metrics.jsonl", "a") as file:
        file.write(json.dumps(lost) + "\n")
    second = session(tmp_path)
    second.resume()
    assert lost not in recorded(tmp_path)
    assert [row["step"] for row in recorded(tmp_path)] == [5, 10, 12]


def test_other_settings_are_refused_by_name_and_the_checkpoint_stays(tmp_path: Path) -> None:
    list(session(tmp_path, steps=2).run())
    with pytest.raises(CheckpointError, match="batch_size was 3, now 4"):
        session(tmp_path, settings={"batch_size": 4}).resume()
    session(tmp_path).resume()


def test_nothing_to_resume_is_said(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="no checkpoint"):
        session(tmp_path).resume()


def test_skipped_steps_are_recorded(tmp_path: Path) -> None:
    run = session(tmp_path, steps=3)
    with torch.no_grad():
        run.trainer.model.softmax.bias[0] = float("inf")
    rows = [row for row in run.run() if row["kind"] == "skip"]
    assert [row["step"] for row in rows] == [1, 2, 3]
    assert all("finite" in row["reason"] for row in rows)


@pytest.mark.parametrize(
    ("length", "steps", "seconds", "progress"),
    [
        (Length(steps=200), 50, 1e9, 0.25),
        (Length(hours=0.5), 10**9, 900.0, 0.5),
    ],
)
def test_progress_goes_by_steps_or_by_the_clock(length: Length, steps: int, seconds: float, progress: float) -> None:
    assert length.progress(steps=steps, seconds=seconds) == progress


def test_a_length_is_steps_or_hours() -> None:
    for bounds in ({}, {"steps": 1, "hours": 1.0}):
        with pytest.raises(ValueError, match="steps or by hours"):
            Length(**bounds)  # type: ignore[arg-type]
