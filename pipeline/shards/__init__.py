"""Shard files, one module a format: `hdf5` and `parquet`, behind the same writer and the same reader.

`pipeline.schema` states what stands in a shard. h5py and pyarrow are each imported only when their format is used.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from pipeline.records import Sentence
from pipeline.schema import Column, RowAxis, ShardFormat, StoredDtype


class ShardWriter(Protocol):
    """Writes one shard; rows arrive in any order and each lands in its place at once."""

    def write(self, rows: Sequence[int], values: Mapping[str, NDArray[Any]]) -> None:
        """Stores the features of some sentences.

        Args:
            rows: Positions of the sentences in the shard, in any order, each written or failed once.
            values: For every column, in the stored dtype, (tokens of those sentences one after the other, width), or
                (sentences, width) for a sentence column and (their spans, width) for a span column.

        Raises:
            ValueError: A row was given before, or a column is missing or has another shape or dtype.
            StorageError: The disk is full or fails.
        """
        ...

    def fail(self, row: int) -> None:
        """Marks a sentence as failed; its vectors are zero."""
        ...

    def close(self) -> None:
        """Completes the file; to bring it to the disk is for whoever commits it.

        Raises:
            ValueError: A sentence with tokens was neither written nor failed; those without need not be.
            StorageError: The disk is full or fails.
        """
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Closes after a block that went well; after an exception lets go of the file, which is then not complete."""
        ...


class ShardReader(Protocol):
    """Reads one shard.

    Every method raises DamageError, naming the file, where the file is not what the manifest or its own lengths say.
    """

    @property
    def layout(self) -> Any:
        """What `open_shard` needs to open the same file again at little cost."""
        ...

    @property
    def offsets(self) -> NDArray[np.int64]:
        """(sentences + 1): sentence r has the token rows offsets[r] up to offsets[r + 1]."""
        ...

    def row_offsets(self, rows: RowAxis) -> NDArray[np.int64]:
        """(sentences + 1): where the rows of each sentence start on an axis, and the number of rows at the end."""
        ...

    @property
    def status(self) -> NDArray[np.uint8]:
        """(sentences): one of `schema.STATUS` each."""
        ...

    def __len__(self) -> int:
        """The number of sentences, failed ones included."""
        ...

    def id(self, row: int) -> str:
        """The id of a sentence."""
        ...

    def ids(self) -> list[str]:
        """The ids of all sentences, in document order."""
        ...

    def sentence(self, row: int) -> Sentence:
        """A sentence and where it came from."""
        ...

    def find(self, text: str) -> list[int]:
        """The rows of the sentences with exactly this text, or with these tokens where no text was given."""
        ...

    def column(self, name: str, row: int) -> NDArray[Any]:
        """The vectors of a sentence in one column, (rows, width), the one row of a sentence column too; newly read."""
        ...

    def columns(self, names: tuple[str, ...], row: int) -> Sequence[NDArray[Any]] | NDArray[Any]:
        """The vectors of a sentence in some columns, each (rows, width), the one row of a sentence column too.

        In the stored dtype; perhaps read-only. Columns of one axis and width may come as one array.
        """
        ...

    def block(self, name: str, start: int, stop: int) -> NDArray[Any]:
        """The vectors of the sentences from start up to stop: (their rows, width)."""
        ...


def create_shard(
    path: Path,
    *,
    shard_format: ShardFormat,
    columns: Sequence[Column],
    dtype: StoredDtype,
    sentences: Sequence[Sentence],
) -> ShardWriter:
    """A writer of a new shard at a local path, all sentences of which are known.

    Raises:
        ConfigError: A column or sentence cannot be stored in this format.
        StorageError: The file cannot be created.
    """
    if shard_format == "hdf5":
        from pipeline.shards.hdf5 import Hdf5Writer  # noqa: PLC0415 - one format needs one library

        return Hdf5Writer(path, columns=columns, dtype=dtype, sentences=sentences)
    from pipeline.shards.parquet import ParquetWriter  # noqa: PLC0415

    return ParquetWriter(path, columns=columns, dtype=dtype, sentences=sentences)


def open_shard(
    file: BinaryIO,
    *,
    name: str,
    shard_format: ShardFormat,
    columns: Sequence[Column],
    dtype: StoredDtype,
    preload: bool = False,
    mapped: bool = False,
    layout: Any = None,
) -> ShardReader:
    """A reader of a complete shard.

    Args:
        file: Opened for reading, seekable; the reader keeps it.
        name: For messages.
        shard_format: As the manifest says.
        columns: As the manifest says.
        dtype: As the manifest says.
        preload: Reads the whole file into memory, once, and closes it.
        mapped: Maps a file of this machine, which then stays in memory as far as it is read. Only HDF5 can.
        layout: That of an earlier reader of the same file, if there was one.

    Raises:
        DamageError: The file is no such shard or lacks one of the columns.
    """
    if shard_format == "hdf5":
        from pipeline.shards.hdf5 import Hdf5Reader  # noqa: PLC0415

        return Hdf5Reader(file, name=name, columns=columns, dtype=dtype, preload=preload, mapped=mapped, layout=layout)
    from pipeline.shards.parquet import ParquetReader  # noqa: PLC0415

    return ParquetReader(file, name=name, columns=columns, dtype=dtype, preload=preload, layout=layout)
