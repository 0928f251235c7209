"""Vectors written straight to their place in a file of known size, and read from it again.

All lengths of a shard are known before the first vector is, so every row has its byte position from the start: batches
may come in any order, nothing is buffered, and a row costs one positioned write a column.
"""

import io
import math
import mmap
import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from types import TracebackType
from typing import Any, BinaryIO, Self
from weakref import WeakSet

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import DamageError, StorageError
from pipeline.records import Sentence
from pipeline.schema import STATUS_FAILED, STATUS_OK, Column, RowAxis, StoredDtype
from pipeline.storage import explain

_PENDING = 255


RowOffsets = Mapping[RowAxis, NDArray[np.int64]]


def row_offsets(sentences: Sequence[Sentence]) -> dict[RowAxis, NDArray[np.int64]]:
    """For each axis (sentences + 1) int64: where the rows of each sentence start, and the number of rows at the end."""
    return {
        "token": offsets_of([len(sentence.tokens) for sentence in sentences]),
        "sentence": np.arange(len(sentences) + 1, dtype=np.int64),
        "span": offsets_of([len(sentence.spans) for sentence in sentences]),
    }


def offsets_of(counts: Sequence[int] | NDArray[np.int64]) -> NDArray[np.int64]:
    """(counts + 1) int64: the sums of the counts before each, and of all at the end."""
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts, dtype=np.int64)])


def shape_of(column: Column, offsets: RowOffsets) -> tuple[int, int]:
    """The shape of a whole column of a shard."""
    return int(offsets[column.rows][-1]), column.width


def sentence_is(sentence: Sentence, text: str) -> bool:
    """Whether a sentence has exactly this text, or where it has none, these tokens separated by single spaces."""
    return (" ".join(sentence.tokens) if sentence.text is None else sentence.text) == text


def write_at(fd: int, data: NDArray[Any], position: int, *, name: str) -> None:
    """Writes a C-contiguous array at a byte position.

    Raises:
        StorageError: The disk is full or fails.
    """
    if not data.size:
        return
    view = data.data.cast("B")
    try:
        while view:
            written = os.pwrite(fd, view, position)
            view, position = view[written:], position + written
    except OSError as error:
        raise StorageError(f"cannot write {name}: {explain(error)}") from error


def read_at(fd: int, place: "Place", start: int, stop: int, *, name: str) -> NDArray[Any]:
    """The rows from start up to stop of an array in a file, read past any map, whose pages would stay in memory.

    Raises:
        StorageError: The disk fails, or the file ends before.
    """
    array = np.empty((stop - start, *place.shape[1:]), dtype=place.dtype)
    if not array.size:
        return array
    view, position = array.data.cast("B"), place.start + start * place.row_bytes
    try:
        while view:
            count = os.preadv(fd, [view], position)
            if not count:
                raise StorageError(f"cannot read {name}: it ends before byte {position + len(view)}")
            view, position = view[count:], position + count
    except OSError as error:
        raise StorageError(f"cannot read {name}: {explain(error)}") from error
    return array


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a two-dimensional array stands in a file: first byte, shape and dtype; rows follow one another."""

    start: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def row_bytes(self) -> int:
        """Bytes a row."""
        return math.prod(self.shape[1:]) * self.dtype.itemsize

    @property
    def end(self) -> int:
        """The byte after the last one."""
        return self.start + self.shape[0] * self.row_bytes


class PlacedWriter:
    """Writes the vectors of sentences to their places in an open file, and keeps count of what came.

    Formats derive from it: they make the file and say what `close` does.
    """

    def __init__(
        self,
        file: BinaryIO,
        places: Mapping[str, Place],
        *,
        name: str,
        columns: Sequence[Column],
        sentences: Sequence[Sentence],
    ):
        self._file = file
        self._places = places
        self._name = name
        self._columns = tuple(columns)
        self._sentences = sentences
        self._offsets = row_offsets(sentences)
        self._status = np.full(len(sentences), _PENDING, dtype=np.uint8)

    def write(self, rows: Sequence[int], values: Mapping[str, NDArray[Any]]) -> None:
        """See `ShardWriter.write`."""
        order = np.asarray(rows, dtype=np.int64)
        ends = {rows: offsets_of(offsets[order + 1] - offsets[order]) for rows, offsets in self._offsets.items()}
        self._check(order, ends, values)
        # Neighbours in the batch that are neighbours in the shard go out as one write.
        breaks = np.flatnonzero(np.diff(order) != 1) + 1
        runs = list(pairwise([0, *breaks.tolist(), len(order)])) if len(order) else []
        for column in self._columns:
            place, array = self._places[column.name], np.ascontiguousarray(values[column.name])
            for first, last in runs:
                row = int(self._offsets[column.rows][order[first]])
                start, stop = ends[column.rows][[first, last]].tolist()
                write_at(self._file.fileno(), array[start:stop], place.start + row * place.row_bytes, name=self._name)
        self._status[order] = STATUS_OK

    def fail(self, row: int) -> None:
        """See `ShardWriter.fail`. The row was never written, so the file holds zeros there."""
        if self._status[row] != _PENDING:
            raise ValueError(f"{self._name}: sentence {row} was written or failed before")
        self._status[row] = STATUS_FAILED

    def close(self) -> None:
        """See `ShardWriter.close`."""
        raise NotImplementedError

    def _check(self, order: NDArray[np.int64], ends: RowOffsets, values: Mapping[str, NDArray[Any]]) -> None:
        if len(np.unique(order)) != len(order) or (self._status[order] != _PENDING).any():
            raise ValueError(f"{self._name}: a sentence among rows {order.tolist()} was written or failed before")
        for column in self._columns:
            array = values.get(column.name)
            expected = shape_of(column, ends)
            dtype = self._places[column.name].dtype
            if array is None or array.shape != expected or array.dtype != dtype:
                given = "is missing" if array is None else f"is {array.dtype} {array.shape}"
                raise ValueError(f"{self._name}: column {column.name} {given}; it must be {dtype} {expected}")

    def _check_complete(self) -> None:
        self._status[(self._status == _PENDING) & (np.diff(self._offsets["token"]) == 0)] = STATUS_OK
        pending = np.flatnonzero(self._status == _PENDING)
        if len(pending):
            raise ValueError(f"{self._name}: {len(pending)} sentences were never written, the first is {pending[0]}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self._file.close()


def place_columns(columns: Sequence[Column], dtype: StoredDtype, offsets: RowOffsets) -> tuple[dict[str, Place], int]:
    """The places of columns that follow one another from byte 0, and the bytes of all of them."""
    places, end = {}, 0
    for column in columns:
        place = Place(start=end, shape=shape_of(column, offsets), dtype=np.dtype(dtype))
        places[column.name], end = place, place.end
    return places, end


class _Residency:
    """Bounds the memory that mapped files take in this process.

    Pages of a file that were read through a map stay with the process for as long as it is mapped, though the system
    keeps them anyway. Giving all of them back now and then costs next to nothing: they are found in its cache again.
    """

    def __init__(self) -> None:
        self._maps: WeakSet[mmap.mmap] = WeakSet()
        self._touched = 0

    def add(self, mapped: mmap.mmap) -> None:
        self._maps.add(mapped)

    def touch(self, size: int) -> None:
        """Accounts for bytes read through a map."""
        self._touched += size + _FAULT_BYTES
        if self._touched > _RESIDENT_BYTES:
            self._touched = 0
            maps = list(self._maps)
            if sum(map(len, maps)) > _RESIDENT_BYTES:
                for mapped in maps:
                    mapped.madvise(mmap.MADV_DONTNEED)


# What Linux maps around a page that is missing, and how much may be mapped before it is given back.
_FAULT_BYTES = 2**16
_RESIDENT_BYTES = 2**27
_residency = _Residency()
touch = _residency.touch


class PlacedReader:
    """Reads arrays at byte positions of an open file, from several threads or forked processes at once.

    Files of this machine are mapped, so that reading them needs neither a shared cursor nor a lock; to cut a file that
    is in use ends the process, as with any mapped file. Remote ones are sought and read under a lock.

    Args:
        file: Opened for reading; kept.
        name: For messages.
    """

    def __init__(self, file: BinaryIO, *, name: str):
        self._file = file
        self._name = name
        self._lock = threading.Lock()
        self._size = file.seek(0, os.SEEK_END)
        self._buffer: mmap.mmap | memoryview | None = None
        if isinstance(file, io.BytesIO):
            self._buffer = file.getbuffer()
        elif self._size and _is_local(file):
            self._buffer = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            _residency.add(self._buffer)

    def view(self, place: Place) -> NDArray[Any] | None:
        """An array in the file as a read-only view of it; None where the file is remote.

        Tell `touch` what is read of it.

        Raises:
            DamageError: The file ends before the array does.
        """
        if place.end > self._size:
            raise DamageError(
                f"{self._name} is cut short: it has {self._size} bytes, an array in it ends at {place.end}"
            )
        if not self._size:
            return np.empty(place.shape, place.dtype)
        if self._buffer is None:
            return None
        view: NDArray[Any] = np.ndarray(place.shape, place.dtype, buffer=self._buffer, offset=place.start)
        view.flags.writeable = False
        return view

    def read(self, place: Place, start: int, stop: int) -> NDArray[Any]:
        """The rows from start up to stop of an array in the file, newly allocated.

        Raises:
            DamageError: The file ends before, or the rows are not within the array.
        """
        if not 0 <= start <= stop <= place.shape[0]:
            raise DamageError(f"{self._name}: rows {start} to {stop} are asked of an array of {place.shape[0]} rows")
        view = self.view(place)
        if view is not None:
            touch((stop - start) * place.row_bytes)
            return view[start:stop].copy()
        array = np.empty((stop - start, *place.shape[1:]), dtype=place.dtype)
        if array.size:
            self._fill(array.data.cast("B"), place.start + start * place.row_bytes)
        return array

    def _fill(self, view: memoryview, position: int) -> None:
        try:
            with self._lock:
                self._file.seek(position)
                while view:
                    count = self._file.readinto(view)  # type: ignore[attr-defined]
                    if not count:
                        raise DamageError(f"{self._name} is cut short: it ends before byte {position + len(view)}")
                    view = view[count:]
        except OSError as error:
            raise StorageError(f"cannot read {self._name}: {explain(error)}") from error


def _is_local(file: BinaryIO) -> bool:
    try:
        file.fileno()
    except OSError:
        return False
    return True
