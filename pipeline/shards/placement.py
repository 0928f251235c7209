"""Vectors written straight to their place in a file of known size, and read from it again.

All lengths of a shard are known before the first vector is, so every row has its byte position from the start: batches
may come in any order, nothing is buffered, and a row costs one positioned write a column.
"""

import io
import math
import mmap
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from types import TracebackType
from typing import Any, BinaryIO, Self

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


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a two-dimensional array stands in a file: first byte, shape and dtype; rows follow one another."""

    start: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @cached_property
    def row_bytes(self) -> int:
        """Bytes a row."""
        return math.prod(self.shape[1:]) * self.dtype.itemsize

    @cached_property
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


_SMALL_BYTES = 4096  # up to which a call that returns bytes is faster than one that fills an array

# From start and stop to the rows between them of several arrays, (arrays, rows, ...), which may be read-only.
ReadRows = Callable[[int, int], NDArray[Any]]


class PlacedReader:
    """Reads arrays at byte positions of an open file, from several threads or forked processes at once.

    A file of this machine is read at a position, which needs neither a shared cursor nor a lock, or mapped. A map is
    faster for rows of a few kB, but what is read through it stays with the process, and around each byte up to 2 MB
    more; and to cut a mapped file ends the process. Remote files are sought and read under a lock.

    Args:
        file: Opened for reading; kept.
        name: For messages.
        mapped: Whether to map it, if it is of this machine.
    """

    def __init__(self, file: BinaryIO, *, name: str, mapped: bool = False):
        self._file = file
        self._name = name
        self._lock = threading.Lock()
        self._memory: memoryview | mmap.mmap | None = None
        self._descriptor: int | None = None
        if isinstance(file, io.BytesIO):
            self._memory = file.getbuffer()
        elif _is_local(file):
            self._descriptor = file.fileno()
            if mapped and file.seek(0, os.SEEK_END):
                self._memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)

    def read(self, place: Place, start: int, stop: int) -> NDArray[Any]:
        """The rows from start up to stop of an array in the file, newly allocated.

        Raises:
            DamageError: The file ends before, or the rows are not within the array.
            StorageError: The file cannot be read.
        """
        self._check(place, start, stop)
        view = self.view(place)
        if view is not None:
            return view[start:stop].copy()
        array: NDArray[Any] = np.empty((stop - start, *place.shape[1:]), place.dtype)
        if array.size:
            self._fill(array, place.start + start * place.row_bytes)
        return array

    def view(self, place: Place) -> NDArray[Any] | None:
        """An array in the file as a read-only view of it; None where the file is not in memory, or ends before."""
        if self._memory is None or place.end > len(self._memory):
            return None
        view: NDArray[Any] = np.ndarray(place.shape, place.dtype, buffer=self._memory, offset=place.start)
        view.flags.writeable = False
        return view

    def rows_of(self, places: Sequence[Place]) -> ReadRows:
        """A function that reads the same rows of arrays in the file that have one shape and dtype.

        The function raises as `read`.
        """
        first, steps = places[0], set(np.diff([place.start for place in places]).tolist())

        def stacked(start: int, stop: int) -> NDArray[Any]:
            self._check(first, start, stop)
            return whole[:, start:stop]

        def joined(start: int, stop: int) -> NDArray[Any]:
            self._check(first, start, stop)
            offset, size = start * first.row_bytes, (stop - start) * first.row_bytes
            shape = len(places), stop - start, *first.shape[1:]
            if size > _SMALL_BYTES or self._descriptor is None:
                return np.stack([self.read(place, start, stop) for place in places])
            try:
                data = b"".join([os.pread(self._descriptor, size, place.start + offset) for place in places])
            except OSError as error:
                raise StorageError(f"cannot read {self._name}: {explain(error)}") from error
            if len(data) != size * len(places):
                raise DamageError(f"{self._name} is cut short: its rows {start} to {stop} are not all there")
            return np.frombuffer(data, first.dtype).reshape(shape)

        end = max(place.end for place in places)
        if self._memory is None or len(steps) > 1 or end > len(self._memory):
            return joined
        # Arrays at equal distances are one array of more dimensions.
        strides = *steps, first.row_bytes, *(first.dtype.itemsize for _ in first.shape[1:])
        shape = len(places), *first.shape
        whole: NDArray[Any] = np.ndarray(
            shape, first.dtype, buffer=self._memory, offset=first.start, strides=strides if steps else None
        )
        whole.flags.writeable = False
        return stacked

    def _check(self, place: Place, start: int, stop: int) -> None:
        if not 0 <= start <= stop <= place.shape[0]:
            raise DamageError(f"{self._name}: rows {start} to {stop} are asked of an array of {place.shape[0]} rows")

    def _fill(self, array: NDArray[Any], position: int) -> None:
        view = array.data.cast("B")
        try:
            while view:
                count = self._read_some(view, position)
                if not count:
                    raise DamageError(f"{self._name} is cut short: it ends before byte {position + len(view)}")
                view, position = view[count:], position + count
        except OSError as error:
            raise StorageError(f"cannot read {self._name}: {explain(error)}") from error

    def _read_some(self, view: memoryview, position: int) -> int:
        if self._memory is not None:
            return 0  # it is at hand, so this is beyond its end
        if self._descriptor is not None:
            return os.preadv(self._descriptor, [view], position)
        with self._lock:
            self._file.seek(position)
            return self._file.readinto(view)  # type: ignore[attr-defined, no-any-return]


def _is_local(file: BinaryIO) -> bool:
    try:
        file.fileno()
    except OSError:
        return False
    return True
