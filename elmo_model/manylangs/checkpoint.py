"""The pickled tensors of ELMoForManyLangs, read so that nothing in the file is executed."""

import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from elmo_model.errors import WeightsError

_ADVICE = "expected is what torch.save(module.state_dict(), path) writes: names and tensors, nothing else"


def read_tensors(path: str | Path) -> dict[str, Tensor]:
    """The tensors of a state dict, on the CPU, by name; zip and legacy format, CPU and CUDA storages.

    Raises:
        WeightsError: If the file can't be read, is cut or damaged, or holds anything but a state dict of ordinary float
            tensors.
    """
    path = Path(path)
    _check_start(path)
    try:
        loaded = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError:
        # torch's own message advises to load the file without this protection.
        raise WeightsError(
            f"{path}: refused: not a torch file, or one with objects other than tensors in it, which could run code "
            f"on loading; {_ADVICE}"
        ) from None
    except Exception as error:  # a damaged file makes torch raise nearly anything
        reason = str(error).splitlines()[0][:200] if str(error) else ""
        raise WeightsError(f"{path}: incomplete or corrupt: {type(error).__name__}: {reason}") from None
    if not isinstance(loaded, Mapping):
        raise WeightsError(f"{path}: holds a {type(loaded).__name__}; {_ADVICE}")
    for name, value in loaded.items():
        _check_tensor(path, name, value)
    return dict(loaded)


def _check_start(path: Path) -> None:
    """Names the usual things that stand where a pickle should."""
    try:
        with open(path, "rb") as file:
            start = file.read(64)
    except OSError as error:
        raise WeightsError(f"{path}: can't be read: {error.strerror}") from None
    if not start:
        raise WeightsError(f"{path}: the file is empty")
    if start.startswith(b"version https://git-lfs"):
        raise WeightsError(f"{path}: a Git LFS pointer, not the file itself; fetch it with 'git lfs pull'")
    if start.lstrip().lower().startswith((b"<!doctype", b"<html")):
        raise WeightsError(f"{path}: an HTML page, not weights; the download went wrong")


def _check_tensor(path: Path, name: Any, value: Any) -> None:
    if not isinstance(name, str) or not isinstance(value, Tensor):
        raise WeightsError(f"{path}: entry {name!r} is a {type(value).__name__}; {_ADVICE}")
    if value.layout != torch.strided or value.device.type != "cpu" or not value.is_floating_point():
        raise WeightsError(f"{path}: {name!r} is a {value.layout} tensor of {value.dtype}; weights are dense floats")
    # A tensor may claim to be far larger than what stands in the file, by repeating it.
    if value.numel() * value.element_size() > value.untyped_storage().nbytes():
        raise WeightsError(f"{path}: {name!r} claims shape {tuple(value.shape)}, more than the file holds for it")
