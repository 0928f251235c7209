"""HDF5 shards: every column one contiguous dataset, written and read at its byte position.

h5py makes the file, with all datasets at full size and its space set aside, and says where each of them stands; the
vectors then go past it. So writing buffers nothing, and reading needs neither HDF5's locks, which fail on some network
file systems, nor its state, which breaks when a process is forked. For the same content the bytes are the same: no
times are kept, and the version of the file format is fixed.
"""

import contextlib
import io
import math
import os
import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO

import h5py
import numpy as np
from numpy.typing import NDArray

from pipeline.errors import DamageError, StorageError
from pipeline.records import Sentence
from pipeline.schema import SHARD_ATTRIBUTE, Column, RowAxis, StoredDtype, describe_columns
from pipeline.shards.placement import (
    Place,
    PlacedReader,
    PlacedWriter,
    ReadRows,
    RowOffsets,
    row_offsets,
    sentence_is,
    shape_of,
    write_at,
)
from pipeline.storage import explain

# The oldest and the newest version of the file format that the library may write; any h5py can read it.
_LIBVER = ("earliest", "v108")
_STRUCTURE = 1 << 16  # bytes that groups, headers and alignment take at most
_ALIGNMENT = 64

# Of every shard, beside its columns; and of one with span columns.
_DATASETS = (
    *("offsets", "status", "line", "text/present"),
    *(f"{name}/{part}" for name in ("id", "source", "text", "token") for part in ("offsets", "bytes")),
)
_SPAN_DATASETS = ("span/offsets", "span/start", "span/end")


class Hdf5Writer(PlacedWriter):
    """Writes one HDF5 shard; see `ShardWriter`."""

    def __init__(self, path: Path, *, columns: Sequence[Column], dtype: StoredDtype, sentences: Sequence[Sentence]):
        try:
            _try_space(path, columns=columns, dtype=dtype, sentences=sentences)
            places = _create(path, columns=columns, dtype=dtype, sentences=sentences)
            file = path.open("r+b", buffering=0)
        except (OSError, RuntimeError) as error:
            raise StorageError(f"cannot write {path}: {explain(_system_error(error))}") from error
        self._status_place = places["status"]
        super().__init__(
            file,
            {column.name: places[f"columns/{column.name}"] for column in columns},
            name=str(path),
            columns=columns,
            sentences=sentences,
        )

    def close(self) -> None:
        """See `ShardWriter.close`."""
        with self._file:
            self._check_complete()
            write_at(self._file.fileno(), self._status, self._status_place.start, name=self._name)


def _system_error(error: OSError | RuntimeError) -> Exception:
    """The error of the system behind one of HDF5, which puts its number into a long text."""
    found = re.search(r"errno = (\d+)", str(error))
    return OSError(int(found[1]), os.strerror(int(found[1]))) if found else error


def _try_space(path: Path, *, columns: Sequence[Column], dtype: StoredDtype, sentences: Sequence[Sentence]) -> None:
    """Finds a disk that is too full before HDF5 does, which can crash once it can't finish a file.

    The size tried is that of the vectors, and no less than that of the rest.
    """
    offsets = row_offsets(sentences)
    values = sum(math.prod(shape_of(column, offsets)) for column in columns)
    characters = sum(
        len(sentence.id) + len(sentence.source) + len(sentence.text or "") + sum(map(len, sentence.tokens))
        for sentence in sentences
    )
    numbers = sum(6 + len(sentence.tokens) + 2 * len(sentence.spans) for sentence in sentences)
    with path.open("wb") as file:
        os.posix_fallocate(
            file.fileno(), 0, values * np.dtype(dtype).itemsize + 4 * characters + 8 * numbers + _STRUCTURE
        )


def _create(
    path: Path, *, columns: Sequence[Column], dtype: StoredDtype, sentences: Sequence[Sentence]
) -> dict[str, Place]:
    """Writes a whole shard but for the vectors and the status; all of these are zero."""
    offsets = row_offsets(sentences)
    with h5py.File(
        path,
        "w",
        libver=_LIBVER,
        track_order=False,
        alignment_threshold=1,
        alignment_interval=_ALIGNMENT,
        meta_block_size=_STRUCTURE // 4,  # so that nothing lies between columns
    ) as file:
        file.attrs[SHARD_ATTRIBUTE] = describe_columns(columns)
        file.create_dataset("offsets", data=offsets["token"], track_times=False)
        lines = np.fromiter((sentence.line for sentence in sentences), dtype=np.int64, count=len(sentences))
        file.create_dataset("line", data=lines, track_times=False)
        _create_strings(file, "id", (sentence.id for sentence in sentences))
        _create_strings(file, "source", (sentence.source for sentence in sentences))
        _create_strings(file, "text", (sentence.text or "" for sentence in sentences))
        present = np.fromiter((s.text is not None for s in sentences), dtype=np.uint8, count=len(sentences))
        file.create_dataset("text/present", data=present, track_times=False)
        _create_strings(file, "token", (token for sentence in sentences for token in sentence.tokens))
        if _has_spans(columns):
            file.create_dataset("span/offsets", data=offsets["span"], track_times=False)
            for part, name in enumerate(("span/start", "span/end")):
                bounds = np.array([span[part] for sentence in sentences for span in sentence.spans], dtype=np.int64)
                file.create_dataset(name, data=bounds, track_times=False)
        _create_empty(file, "status", (len(sentences),), np.dtype(np.uint8))
        for column in columns:
            _create_empty(file, f"columns/{column.name}", shape_of(column, offsets), np.dtype(dtype))
        return _places(file, columns)


def _has_spans(columns: Iterable[Column]) -> bool:
    return any(column.rows == "span" for column in columns)


def _create_strings(file: h5py.File, name: str, strings: Iterable[str]) -> None:
    encoded = [string.encode("utf-8") for string in strings]
    ends = np.cumsum(np.fromiter(map(len, encoded), dtype=np.int64, count=len(encoded)))
    file.create_dataset(f"{name}/bytes", data=np.frombuffer(b"".join(encoded), dtype=np.uint8), track_times=False)
    file.create_dataset(f"{name}/offsets", data=np.concatenate([[0], ends]).astype(np.int64), track_times=False)


def _create_empty(file: h5py.File, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    """A contiguous dataset with space in the file but nothing written to it: a new file is zero wherever it is not."""
    settings = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    settings.set_layout(h5py.h5d.CONTIGUOUS)
    settings.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    settings.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
    settings.set_obj_track_times(False)
    links = h5py.h5p.create(h5py.h5p.LINK_CREATE)
    links.set_create_intermediate_group(True)
    kind = h5py.h5t.py_create(dtype.newbyteorder("<"), logical=True)
    h5py.h5d.create(file.id, name.encode("ascii"), kind, h5py.h5s.create_simple(shape), settings, links)


def _places(file: h5py.File, columns: Sequence[Column]) -> dict[str, Place]:
    """Where every dataset of a shard stands; what is missing is left out.

    By name and by h5py's low-level interface, at half the cost of a walk, since a commit opens all shards there are.
    """
    places = {}
    spans = _SPAN_DATASETS if _has_spans(columns) else ()
    for name in (*_DATASETS, *spans, *(f"columns/{column.name}" for column in columns)):
        with contextlib.suppress(KeyError):
            node = h5py.h5d.open(file.id, name.encode())
            start = node.get_offset()
            if start is None and math.prod(node.shape):
                raise ValueError(f"dataset {name} is not contiguous")
            places[name] = Place(start=start or 0, shape=node.shape, dtype=node.dtype)
    return places


def _read_layout(file: BinaryIO, name: str, columns: Sequence[Column]) -> dict[str, Place]:
    try:
        # Through the file object HDF5 takes no lock.
        with h5py.File(file, "r") as opened:
            return _places(opened, columns)
    except (OSError, RuntimeError, ValueError, KeyError, TypeError) as error:
        raise DamageError(f"{name}: not a readable HDF5 shard ({error})") from None


class Hdf5Reader:
    """Reads one HDF5 shard; see `ShardReader`."""

    def __init__(
        self,
        file: BinaryIO,
        *,
        name: str,
        columns: Sequence[Column],
        dtype: StoredDtype,
        preload: bool,
        mapped: bool,
        layout: dict[str, Place] | None,
    ):
        if preload:
            with file:
                file = io.BytesIO(file.read())
        self._name = name
        self._columns = {column.name: column for column in columns}
        self._file = PlacedReader(file, name=name, mapped=mapped)
        self.layout = layout if layout is not None else _read_layout(file, name, columns)
        self.offsets = self._array("offsets", np.int64)
        self.status = self._array("status", np.uint8)
        spans = _has_spans(columns)
        self._span_offsets = self._array("span/offsets", np.int64) if spans else np.zeros(len(self) + 1, np.int64)
        self._check(np.dtype(dtype))
        # Indexing a buffer costs a fraction of indexing an array.
        self._bounds = self.offsets.data
        bounds = {"token": self._bounds, "sentence": range(len(self) + 1), "span": self._span_offsets.data}
        self._bounds_of = {column.name: bounds[column.rows] for column in columns}
        self._places_of = {column.name: self.layout[f"columns/{column.name}"] for column in columns}
        self._views = {name: self._file.view(place) for name, place in self._places_of.items()}
        self._alike: dict[tuple[str, ...], ReadRows | None] = {}

    def __len__(self) -> int:
        return len(self.status)

    def id(self, row: int) -> str:
        """See `ShardReader.id`."""
        return self._strings("id", row, row + 1)[0]

    def ids(self) -> list[str]:
        """See `ShardReader.ids`."""
        return self._strings("id", 0, len(self))

    def sentence(self, row: int) -> Sentence:
        """See `ShardReader.sentence`."""
        has_text = self._array("text/present", np.uint8, row, row + 1)[0]
        return Sentence(
            id=self.id(row),
            tokens=tuple(self._strings("token", int(self.offsets[row]), int(self.offsets[row + 1]))),
            text=self._strings("text", row, row + 1)[0] if has_text else None,
            source=self._strings("source", row, row + 1)[0],
            line=int(self._array("line", np.int64, row, row + 1)[0]),
            spans=self._spans(int(self._span_offsets[row]), int(self._span_offsets[row + 1])),
        )

    def row_offsets(self, rows: RowAxis) -> NDArray[np.int64]:
        """See `ShardReader.row_offsets`."""
        if rows == "token":
            return self.offsets
        return self._span_offsets if rows == "span" else np.arange(len(self) + 1)

    def find(self, text: str) -> list[int]:
        """See `ShardReader.find`."""
        present = self._array("text/present", np.uint8)
        lengths = np.diff(self._array("text/offsets", np.int64))
        candidates = np.flatnonzero(np.where(present, lengths == len(text.encode("utf-8")), True))
        return [row for row in candidates.tolist() if sentence_is(self.sentence(row), text)]

    def column(self, name: str, row: int) -> NDArray[Any]:
        """See `ShardReader.column`."""
        view, bounds = self._views[name], self._bounds_of[name]
        if view is None:
            return self.block(name, row, row + 1)
        return view[bounds[row] : bounds[row + 1]].copy()

    def columns(self, names: tuple[str, ...], row: int) -> Sequence[NDArray[Any]] | NDArray[Any]:
        """See `ShardReader.columns`."""
        if names not in self._alike:
            shapes = {(self._columns[name].rows, self._columns[name].width) for name in names}
            places = [self._places_of[name] for name in names]
            self._alike[names] = self._file.rows_of(places) if len(shapes) == 1 else None
        read = self._alike[names]
        if read is None:
            return [self.block(name, row, row + 1) for name in names]
        bounds = self._bounds_of[names[0]]
        return read(bounds[row], bounds[row + 1])

    def block(self, name: str, start: int, stop: int) -> NDArray[Any]:
        """See `ShardReader.block`."""
        bounds = self._bounds_of[name]
        return self._file.read(self._places_of[name], bounds[start], bounds[stop])

    def _array(self, name: str, dtype: type[np.generic], start: int = 0, stop: int | None = None) -> NDArray[Any]:
        place = self.layout.get(name)
        if place is None or len(place.shape) != 1 or place.dtype != np.dtype(dtype):
            raise DamageError(f"{self._name}: dataset {name} is missing, or not one row of {np.dtype(dtype)}")
        return self._file.read(place, start, place.shape[0] if stop is None else stop)

    def _spans(self, start: int, stop: int) -> tuple[tuple[int, int], ...]:
        if start == stop:
            return ()
        starts, ends = (self._array(name, np.int64, start, stop).tolist() for name in ("span/start", "span/end"))
        return tuple(zip(starts, ends, strict=True))

    def _strings(self, name: str, start: int, stop: int) -> list[str]:
        bounds = self._array(f"{name}/offsets", np.int64, start, stop + 1).tolist()
        if bounds != sorted(bounds):
            raise DamageError(f"{self._name}: the offsets of {name} do not ascend")
        data = self._array(f"{name}/bytes", np.uint8, bounds[0], bounds[-1]).tobytes()
        ends = [end - bounds[0] for end in bounds]
        try:
            return [data[start:end].decode("utf-8") for start, end in pairwise(ends)]
        except UnicodeDecodeError as error:
            raise DamageError(f"{self._name}: {name} holds bytes that are not UTF-8 ({error})") from None

    def _check(self, dtype: np.dtype[Any]) -> None:
        for offsets in (self.offsets, self._span_offsets):
            if len(offsets) != len(self) + 1 or offsets[0] != 0 or (np.diff(offsets) < 0).any():
                raise DamageError(f"{self._name}: the offsets do not fit {len(self)} sentences")
        offsets_by_axis: RowOffsets = {rows: self.row_offsets(rows) for rows in ("token", "sentence", "span")}
        for column in self._columns.values():
            place = self.layout.get(f"columns/{column.name}")
            expected = shape_of(column, offsets_by_axis)
            if place is None or place.shape != expected or place.dtype != dtype:
                given = "is missing" if place is None else f"is {place.dtype} {place.shape}"
                raise DamageError(f"{self._name}: column {column.name} {given}; it should be {dtype} {expected}")
