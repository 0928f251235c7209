"""Checkpoints on disk: whole or absent, the last two kept, errors in one line."""

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from elmo_model.pretraining.checkpoint import Checkpoint, CheckpointError, load_checkpoint, save_checkpoint

BIG = Checkpoint({"big": torch.arange(300_000.0)}, {"step": 2})


def small(step: int) -> Checkpoint:
    return Checkpoint(
        {"weights": torch.full((3,), float(step)), "number": torch.tensor(7)}, {"step": step, "text": "é\ud800"}
    )


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_last_checkpoint_comes_back_and_the_last_two_stay(tmp_path: Path) -> None:
    for step in (5, 900, 10_000):
        save_checkpoint(tmp_path, small(step), step=step)
    assert names(tmp_path) == ["step-00000900", "step-00010000"]
    loaded = load_checkpoint(tmp_path)
    assert loaded is not None
    assert loaded.values["text"] == "é\ud800"
    assert loaded.values["step"] == 10_000
    assert torch.equal(loaded.tensors["weights"], torch.full((3,), 10_000.0))
    assert loaded.tensors["number"].shape == ()


def test_a_folder_without_checkpoints_has_none(tmp_path: Path) -> None:
    assert load_checkpoint(tmp_path) is None
    assert load_checkpoint(tmp_path / "missing") is None


def test_saving_the_same_step_again_replaces_it(tmp_path: Path) -> None:
    save_checkpoint(tmp_path, small(1), step=1)
    save_checkpoint(tmp_path, Checkpoint({"weights": torch.zeros(1)}, {}), step=1)
    loaded = load_checkpoint(tmp_path)
    assert loaded is not None
    assert loaded.tensors["weights"].tolist() == [0.0]


def save_with_small_files_only(folder: str) -> None:
    """Run in a process of its own, where no file may grow beyond 100 kB: what a full disk does."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
    try:
        save_checkpoint(folder, BIG, step=2)
    except CheckpointError as error:
        print(error)


def test_a_full_disk_is_one_line_and_leaves_the_checkpoint_before(tmp_path: Path) -> None:
    save_checkpoint(tmp_path, small(1), step=1)
    module = Path(__file__)
    code = (
        f"import importlib.util, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        f"spec = importlib.util.spec_from_file_location('checkpoints', {str(module)!r});"
        f"module = importlib.util.module_from_spec(spec); spec.loader.exec_module(module);"
        f"module.save_with_small_files_only({str(tmp_path)!r})"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=dict(os.environ)
    )
    assert "can't be written" in done.stdout
    assert done.stdout.count("\n") == 1
    assert names(tmp_path) == ["step-00000001"]
    loaded = load_checkpoint(tmp_path)
    assert loaded is not None
    assert loaded.values["step"] == 1


@pytest.mark.parametrize("file", ["tensors.safetensors", "values.json"])
def test_a_damaged_checkpoint_is_named(tmp_path: Path, file: str) -> None:
    folder = save_checkpoint(tmp_path, BIG, step=2)
    path = folder / file
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(CheckpointError, match="step-00000002: damaged"):
        load_checkpoint(tmp_path)


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    folder = save_checkpoint(tmp_path, small(1), step=1)
    path = folder / "values.json"
    path.write_text(path.read_text().replace('"format_version": 1', '"format_version": 99'))
    with pytest.raises(CheckpointError, match="format 99"):
        load_checkpoint(tmp_path)
