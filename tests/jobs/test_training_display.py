"""What a training tells while it runs, and its curve."""

import json
from pathlib import Path
from typing import Any

import pytest

from jobs.curves import draw_curve
from jobs.training_display import TrainingDisplay, describe

BASE: dict[str, Any] = {"step": 1250, "tokens": 3_840_000, "epoch": 0, "seconds": 1800.0, "progress": 0.25}
TRAIN = {
    **BASE,
    "kind": "train",
    "sampled_loss": 4.5,
    "gradient_norm": 7.0,
    "learning_rate": 0.1,
    "tokens_per_second": 6_012.3,
}
VALIDATION = {**BASE, "kind": "validation", "mean": 101.5, "forward": 102.0, "backward": 101.0}


def test_a_line_names_the_sampled_loss_and_the_time_left() -> None:
    assert describe(TRAIN) == "step 1,250  epoch 1  3.84 M tokens  sampled loss 4.500  6,012 tokens/s  1:30:00 left"


def test_a_loss_over_all_words_is_named_so() -> None:
    row = {name: value for name, value in TRAIN.items() if name != "sampled_loss"} | {"loss": 4.0, "progress": 1.01}
    assert describe(row).endswith("loss 4.000  6,012 tokens/s  0:00:00 left")
    assert "sampled" not in describe(row)


def test_validation_and_skipped_steps_are_told() -> None:
    assert describe(VALIDATION).endswith("validation perplexity 101.50 (forward 102.00, backward 101.00)")
    assert describe({**BASE, "kind": "skip", "reason": "loss is odd"}).endswith("step skipped: loss is odd")


def test_the_curve_is_drawn_from_the_record(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    rows = [TRAIN, {**TRAIN, "tokens": 7_680_000, "sampled_loss": 4.2}, VALIDATION]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    drawn = draw_curve(tmp_path)
    first = drawn.read_bytes()
    assert first.startswith(b"\x89PNG")
    assert draw_curve(tmp_path).read_bytes() == first
    (tmp_path / "metrics.jsonl").write_text(json.dumps({**TRAIN, "sampled_loss": 9.0}) + "\n")
    assert draw_curve(tmp_path).read_bytes() != first


def test_tensorboard_files_are_written_where_it_is_installed(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    with TrainingDisplay(tmp_path, enabled=True) as display:
        display.show(TRAIN)
    assert list((tmp_path / "tensorboard").glob("events*"))


def test_other_processes_of_a_run_stay_silent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with TrainingDisplay(tmp_path, enabled=False) as display:
        display.show(TRAIN)
    assert capsys.readouterr() == ("", "")
    assert not list(tmp_path.iterdir())
