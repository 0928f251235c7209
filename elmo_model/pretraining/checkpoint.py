"""Checkpoints: the whole state of a training run in folders that appear whole or not at all; the last two are kept.

FOLDER/step-00001250/tensors.safetensors    weights, optimizer, carried states, random numbers
FOLDER/step-00001250/values.json            step, data position, sampler state, and what the run was started with
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from elmo_model.errors import ElmoModelError

FORMAT_VERSION = 1
_KEPT = 2


class CheckpointError(ElmoModelError):
    """A checkpoint that is missing, damaged, or of a run with other settings."""


@dataclass(frozen=True)
class Checkpoint:
    """A saved state.

    Attributes:
        tensors: By name.
        values: The rest, as JSON values.
    """

    tensors: dict[str, Tensor]
    values: dict[str, Any]


def save_checkpoint(folder: str | Path, checkpoint: Checkpoint, *, step: int) -> Path:
    """Writes a checkpoint, then removes all but the last two; an error leaves those that were there as they were.

    Raises:
        CheckpointError: It can't be written, for want of space say.
    """
    folder = Path(folder)
    final = folder / f"step-{step:08d}"
    unfinished = folder / ".unfinished"  # one that was left by a killed process is overwritten
    try:
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        tensors = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in checkpoint.tensors.items()}
        save_file(tensors, unfinished / "tensors.safetensors")
        values = json.dumps({"format_version": FORMAT_VERSION, **checkpoint.values})
        (unfinished / "values.json").write_text(values, encoding="utf-8")
        for path in (*unfinished.iterdir(), unfinished):
            _sync(path)
        shutil.rmtree(final, ignore_errors=True)
        os.rename(unfinished, final)
        _sync(folder)
    except (OSError, SafetensorError) as error:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise CheckpointError(
            f"{final}: the checkpoint can't be written: {error}; the one before it is intact"
        ) from None
    for old in _checkpoints(folder)[:-_KEPT]:
        shutil.rmtree(old, ignore_errors=True)
    return final


def load_checkpoint(folder: str | Path) -> Checkpoint | None:
    """The last checkpoint in a folder, or None if it holds none.

    Raises:
        CheckpointError: It is damaged or of a newer format.
    """
    found = _checkpoints(Path(folder))
    if not found:
        return None
    last = found[-1]
    try:
        values = json.loads((last / "values.json").read_bytes())
        if values["format_version"] > FORMAT_VERSION:
            raise CheckpointError(
                f"{last}: of format {values['format_version']}; this version reads up to {FORMAT_VERSION}"
            )
        return Checkpoint(load_file(last / "tensors.safetensors"), values)
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
        raise CheckpointError(
            f"{last}: damaged ({error}); remove this folder to go on from the checkpoint before it"
        ) from None


def _checkpoints(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("step-*") if path.is_dir()) if folder.is_dir() else []


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
