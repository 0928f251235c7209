"""Arrays out of HDF5 files from strangers.

A weight file is never trusted: only plain arrays of the expected shapes are read, links to other files aren't followed,
and every value must be finite.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from elmo_model.errors import WeightsError
from elmo_model.weight_table import StoredArray

_HDF5_SIGNATURE = b"\x89HDF\r\n\x1a\n"


@contextmanager
def open_weights(path: Path) -> Iterator[h5py.File]:
    """The file, open for reading.

    Raises:
        WeightsError: If it can't be read, or isn't a whole HDF5 file.
    """
    try:
        with open(path, "rb") as raw:
            start = raw.read(len(_HDF5_SIGNATURE))
    except OSError as error:
        raise WeightsError(f"{path}: can't be read: {error.strerror}") from None
    if start != _HDF5_SIGNATURE:
        raise WeightsError(f"{path}: not an HDF5 file, or incomplete or corrupt: it starts with {start!r}")
    with damage_named(path):
        file = h5py.File(path, "r")
    with file:
        yield file


def read_array(file: h5py.File, array: StoredArray) -> NDArray[np.float32]:
    """The array as float32, contiguous.

    Raises:
        WeightsError: As `find_array`, or if a value isn't finite.
    """
    dataset = find_array(file, array)
    with damage_named(file.filename), np.errstate(over="ignore"):
        values: NDArray[np.float32] = np.ascontiguousarray(dataset[()], dtype=np.float32)
    finite = np.isfinite(values)
    if not finite.all():
        count = int(values.size - finite.sum())
        raise WeightsError(
            f"{file.filename}: array {dataset.name[1:]!r} holds {count} values of {values.size} that aren't finite"
        )
    return values


def find_array(file: h5py.File, array: StoredArray) -> h5py.Dataset:
    """The array in the file, checked for kind and shape and not yet read.

    Raises:
        WeightsError: If it is missing, lies in another file, or is of another kind or shape.
    """
    with damage_named(file.filename):
        name = next((name for name in array.names if _is_plain(file, name)), None)
        if name is None:
            raise WeightsError(
                f"{file.filename}: array {' or '.join(map(repr, array.names))} is missing; "
                f"by the options it has shape {array.shape}"
            )
        dataset = file[name]
        if not isinstance(dataset, h5py.Dataset) or dataset.is_virtual or dataset.external:
            raise WeightsError(f"{file.filename}: {name!r} must be an array stored in this file")
        if dataset.dtype.kind != "f":
            raise WeightsError(f"{file.filename}: array {name!r} is of type {dataset.dtype}; weights are floats")
        if dataset.shape != array.shape:
            raise WeightsError(
                f"{file.filename}: array {name!r} has shape {dataset.shape}, but by the options {array.shape}"
            )
        return dataset


@contextmanager
def damage_named(path: Path | str) -> Iterator[None]:
    """Turns what the HDF5 library says of a damaged file into one line."""
    try:
        yield
    except (OSError, RuntimeError, KeyError, ValueError) as error:
        raise WeightsError(f"{path}: incomplete or corrupt: {' '.join(str(error).split())}") from None


def _is_plain(file: h5py.File, name: str) -> bool:
    """Whether the path exists without soft or external links, which could lead outside the file."""
    group: Any = file
    for part in name.split("/"):
        if not isinstance(group, h5py.Group) or not isinstance(group.get(part, getlink=True), h5py.HardLink):
            return False
        group = group[part]
    return True
