"""Parquet shards: one row a sentence, for people who come with pyarrow, DuckDB, Polars or Spark.

A column of vectors is a flat list of numbers a row. Measured on 82 MB of float32, in MB/s written and read: flat lists
450 and 1,350, lists of fixed-size lists 290 and 900 (some engines read those as null), lists of fixed-size binaries 870
and 2,400, plain binary 1,000 and 2,700; half floats wrote at 130 as numbers and at 1,000 as binary. Numbers were chosen
over bytes: whoever picks this format over HDF5 does it to see them in other tools. Nearly all values differ, so there
is no dictionary, no compression and no statistics on them.

Rows of a Parquet file are written in order while batches come by length, so vectors wait in an unnamed scratch file
beside the shard, which takes its size once more on disk and nothing in memory.
"""

import tempfile
import threading
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from pipeline.errors import ConfigError, DamageError, StorageError
from pipeline.records import Sentence
from pipeline.schema import SHARD_ATTRIBUTE, Column, RowAxis, StoredDtype, describe_columns
from pipeline.shards.placement import (
    PlacedReader,
    PlacedWriter,
    offsets_of,
    place_columns,
    row_offsets,
    sentence_is,
)
from pipeline.storage import explain

# Lists count their values in 32 bits.
_MOST_VALUES = 2**31 - 1
# A row group is the least that can be read: small ones make random reads cheap (at 2**18 they took three times as long,
# and writing and scanning were no faster), while the file grows by 0.4 % for all that is not vectors.
GROUP_VALUES = 2**16

_PLAIN = {"id": pa.string(), "text": pa.string(), "tokens": pa.list_(pa.string())}
_PLAIN |= {"source": pa.string(), "line": pa.int64(), "status": pa.uint8()}
_SPANS = {"spans": pa.list_(pa.field("element", pa.int64(), nullable=False))}


class ParquetWriter(PlacedWriter):
    """Writes one Parquet shard; see `ShardWriter`.

    Args:
        group_values: The most numbers that one column has in a row group, unless a single sentence has more.
    """

    def __init__(
        self,
        path: Path,
        *,
        columns: Sequence[Column],
        dtype: StoredDtype,
        sentences: Sequence[Sentence],
        group_values: int = GROUP_VALUES,
    ):
        _check_sizes(columns, sentences)
        places, size = place_columns(columns, dtype, row_offsets(sentences))
        try:
            scratch: Any = tempfile.TemporaryFile(dir=path.parent, buffering=0)  # noqa: SIM115 - closed by close()
            scratch.truncate(size)
        except OSError as error:
            raise StorageError(f"cannot write {path}: {explain(error)}") from error
        super().__init__(scratch, places, name=str(path), columns=columns, sentences=sentences)
        self._path = path
        self._schema = _schema(columns, dtype)
        self._group_values = group_values

    def close(self) -> None:
        """See `ShardWriter.close`."""
        with self._file:
            self._check_complete()
            scratch = PlacedReader(self._file, name=self._name)
            try:
                with (
                    pa.OSFile(str(self._path), "wb") as file,
                    pq.ParquetWriter(
                        file,
                        self._schema,
                        compression="none",
                        use_dictionary=["source"],
                        write_statistics=list(_PLAIN),
                        data_page_version="1.0",
                        version="2.6",
                    ) as writer,
                ):
                    for start, stop in self._groups():
                        table = self._table(scratch, start, stop)
                        writer.write_table(table, row_group_size=len(table))
            except OSError as error:
                raise StorageError(f"cannot write {self._name}: {explain(error)}") from error

    def _groups(self) -> Iterator[tuple[int, int]]:
        """Row groups as bounds of sentences; an empty sentence counts like one token."""
        rows = np.maximum(np.diff(self._offsets["token"]), np.diff(self._offsets["span"]))
        costs = (rows + 1) * max((column.width for column in self._columns), default=1)
        start = total = 0
        for row, cost in enumerate(costs.tolist()):
            if row > start and total + cost > self._group_values:
                yield start, row
                start, total = row, 0
            total += cost
        if start < len(costs):
            yield start, len(costs)

    def _table(self, scratch: PlacedReader, start: int, stop: int) -> pa.Table:
        sentences = self._sentences[start:stop]
        arrays = [
            pa.array([sentence.id for sentence in sentences], pa.string()),
            pa.array([sentence.text for sentence in sentences], pa.string()),
            pa.array([list(sentence.tokens) for sentence in sentences], pa.list_(pa.string())),
            pa.array([sentence.source for sentence in sentences], pa.string()),
            pa.array([sentence.line for sentence in sentences], pa.int64()),
            pa.array(self._status[start:stop]),
        ]
        if "spans" in self._schema.names:
            spans = [list(chain.from_iterable(sentence.spans)) for sentence in sentences]
            arrays.append(pa.array(spans, _SPANS["spans"]))
        for column in self._columns:
            bounds = self._offsets[column.rows][start : stop + 1]
            values = scratch.read(self._places[column.name], int(bounds[0]), int(bounds[-1]))
            ends = pa.array(((bounds - bounds[0]) * column.width).astype(np.int32))
            kind = self._schema.field(column.name).type
            arrays.append(pa.ListArray.from_arrays(ends, pa.array(values.reshape(-1)), type=kind))
        return pa.Table.from_arrays(arrays, schema=self._schema)


def _check_sizes(columns: Sequence[Column], sentences: Sequence[Sentence]) -> None:
    widest = max((column.width for column in columns), default=1)
    for sentence in sentences:
        rows = max(len(sentence.tokens), len(sentence.spans))
        if rows * widest > _MOST_VALUES:
            raise ConfigError(
                f"sentence {sentence.id} has {rows} rows of {widest} numbers, more than the "
                f"{_MOST_VALUES} that a Parquet list can hold; use the format hdf5"
            )
    clashes = sorted((_PLAIN | _SPANS).keys() & {column.name for column in columns})
    if clashes:
        raise ConfigError(f"a column cannot have the name {clashes[0]}, which a Parquet shard uses for itself")


def _plain(columns: Sequence[Column]) -> dict[str, pa.DataType]:
    """What a shard with these columns holds beside them."""
    return _PLAIN | (_SPANS if any(column.rows == "span" for column in columns) else {})


def _schema(columns: Sequence[Column], dtype: StoredDtype) -> pa.Schema:
    fields = [pa.field(name, kind, nullable=name == "text") for name, kind in _plain(columns).items()]
    numbers = pa.list_(pa.field("element", pa.from_numpy_dtype(dtype), nullable=False))
    fields += [pa.field(column.name, numbers, nullable=False) for column in columns]
    return pa.schema(fields, metadata={SHARD_ATTRIBUTE: describe_columns(columns)})


class ParquetReader:
    """Reads one Parquet shard; see `ShardReader`.

    A row group is the least that can be read; the one last used is kept, column by column as they are asked for.
    """

    def __init__(
        self,
        file: BinaryIO,
        *,
        name: str,
        columns: Sequence[Column],
        dtype: StoredDtype,
        preload: bool = False,
        layout: pq.FileMetaData | None = None,
    ):
        self._name = name
        self._columns = {column.name: column for column in columns}
        self._plain = _plain(columns)
        try:
            self._file = pq.ParquetFile(pa.PythonFile(file, "r"), metadata=layout)
            self.layout = self._file.metadata
            found = self._file.schema_arrow
            self._starts = np.cumsum(
                [0, *(self.layout.row_group(g).num_rows for g in range(self._file.num_row_groups))]
            )
        except (OSError, pa.ArrowException, ValueError) as error:
            raise DamageError(f"{name}: not a readable Parquet shard ({error})") from None
        for field in _schema(columns, dtype):
            index = found.get_field_index(field.name)
            if index < 0 or found.field(index).type != field.type:
                given = "is missing" if index < 0 else f"is {found.field(index).type}"
                raise DamageError(f"{name}: column {field.name} {given}; it should be {field.type}")
        self._dtype = np.dtype(dtype)
        self._lock = threading.Lock()
        self._cached: dict[tuple[int, str], pa.Array] = {}
        self._preload = preload
        self._offsets: NDArray[np.int64] | None = None
        self._status: NDArray[np.uint8] | None = None
        if preload:
            for group in range(self._file.num_row_groups):
                for field in [*self._plain, *self._columns]:
                    self._read(group, field)
            file.close()

    def __len__(self) -> int:
        return int(self._starts[-1])

    @property
    def offsets(self) -> NDArray[np.int64]:
        """See `ShardReader.offsets`."""
        if self._offsets is None:
            lengths = [np.diff(self._list(group, "tokens")[0]) for group in range(len(self._starts) - 1)]
            self._offsets = np.cumsum(np.concatenate([np.zeros(1, dtype=np.int64), *lengths]))
        return self._offsets

    @property
    def status(self) -> NDArray[np.uint8]:
        """See `ShardReader.status`."""
        if self._status is None:
            parts = [self._read(group, "status").to_numpy() for group in range(len(self._starts) - 1)]
            self._status = np.concatenate([np.zeros(0, dtype=np.uint8), *parts])
        return self._status

    def id(self, row: int) -> str:
        """See `ShardReader.id`."""
        group, row = self._locate(row)
        return str(self._read(group, "id")[row].as_py())

    def ids(self) -> list[str]:
        """See `ShardReader.ids`."""
        return [text for group in range(len(self._starts) - 1) for text in self._read(group, "id").to_pylist()]

    def sentence(self, row: int) -> Sentence:
        """See `ShardReader.sentence`."""
        group, row = self._locate(row)
        values = {name: self._read(group, name)[row].as_py() for name in self._plain}
        ends = values.get("spans", [])
        return Sentence(
            id=values["id"],
            tokens=tuple(values["tokens"]),
            text=values["text"],
            source=values["source"],
            line=values["line"],
            spans=tuple(zip(ends[::2], ends[1::2], strict=True)),
        )

    def row_offsets(self, rows: RowAxis) -> NDArray[np.int64]:
        """See `ShardReader.row_offsets`."""
        if rows == "token":
            return self.offsets
        if rows == "sentence":
            return np.arange(len(self) + 1)
        if "spans" not in self._plain:
            return np.zeros(len(self) + 1, np.int64)
        counts = [np.diff(self._list(group, "spans")[0]) // 2 for group in range(len(self._starts) - 1)]
        return offsets_of(np.concatenate([np.zeros(0, np.int64), *counts]))

    def find(self, text: str) -> list[int]:
        """See `ShardReader.find`."""
        candidates = (
            int(self._starts[group]) + row
            for group in range(len(self._starts) - 1)
            for row, stored in enumerate(self._read(group, "text").to_pylist())
            if stored is None or stored == text
        )
        return [row for row in candidates if sentence_is(self.sentence(row), text)]

    def column(self, name: str, row: int) -> NDArray[Any]:
        """See `ShardReader.column`."""
        return self.block(name, row, row + 1)

    def columns(self, names: tuple[str, ...], row: int) -> list[NDArray[Any]]:
        """See `ShardReader.columns`."""
        return [next(self._pieces(name, row, row + 1)) for name in names]

    def block(self, name: str, start: int, stop: int) -> NDArray[Any]:
        """See `ShardReader.block`."""
        # Arrow's arrays are read-only; a caller gets one of its own.
        return np.concatenate([np.empty((0, self._columns[name].width), self._dtype), *self._pieces(name, start, stop)])

    def _pieces(self, name: str, start: int, stop: int) -> Iterator[NDArray[Any]]:
        """The vectors of some sentences, one array a row group."""
        width = self._columns[name].width
        while start < stop:
            group, row = self._locate(start)
            last = min(stop, int(self._starts[group + 1]))
            bounds, values = self._list(group, name)
            part = values[bounds[row] : bounds[row + last - start]]
            if len(part) % width:
                raise DamageError(f"{self._name}: column {name} has {len(part)} numbers, no multiple of {width}")
            yield part.reshape(-1, width)
            start = last

    def _locate(self, row: int) -> tuple[int, int]:
        """The row group of a sentence, and its row there."""
        group = int(np.searchsorted(self._starts, row, side="right")) - 1
        return group, row - int(self._starts[group])

    def _list(self, group: int, name: str) -> tuple[NDArray[np.int32], NDArray[Any]]:
        """A list column of a row group: (rows + 1) bounds, and the values that they cut."""
        array = self._read(group, name)
        values = array.values if name == "tokens" else array.values.to_numpy()
        return array.offsets.to_numpy(), values

    def _read(self, group: int, name: str) -> pa.Array:
        key = group, name
        with self._lock:
            if key not in self._cached:
                if not self._preload and any(cached != group for cached, _ in self._cached):
                    self._cached.clear()
                self._cached[key] = self._decode(group, name)
            return self._cached[key]

    def _decode(self, group: int, name: str) -> pa.Array:
        rows = int(self._starts[group + 1] - self._starts[group])
        try:
            array = self._file.read_row_group(group, columns=[name], use_threads=False).column(0).combine_chunks()
            # Arrow itself trusts what it reads, and would later read beyond the end of it.
            array.validate(full=True)
        except (OSError, pa.ArrowException, ValueError) as error:
            raise DamageError(f"{self._name}: column {name} of row group {group} cannot be read ({error})") from None
        nulls = 0 if name == "text" else array.null_count
        if isinstance(array, pa.ListArray):
            nulls += array.values.null_count
        if len(array) != rows or nulls:
            raise DamageError(f"{self._name}: column {name} of row group {group} does not have {rows} values")
        return array
