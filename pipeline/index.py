"""The index of a store: from an id to its shard and row, without reading ids into memory."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import DamageError
from pipeline.schema import INDEX, INDEX_DTYPE, id_hash
from pipeline.storage import Folder

_HEADER_BYTES = 192


def build_index(ids: Iterable[Sequence[str]], *, sentences: int) -> NDArray[Any]:
    """The index of a store, in INDEX_DTYPE, sorted by hash, then shard, then row.

    Args:
        ids: The ids of each shard, shard after shard; only those of one are held at a time.
        sentences: How many there are in all; the index takes 40 bytes for each while it is built.

    Raises:
        ValueError: There are fewer or more ids.
    """
    index = np.zeros(sentences, dtype=INDEX_DTYPE)
    end = 0
    for shard, shard_ids in enumerate(ids):
        start, end = end, end + len(shard_ids)
        if end > sentences:
            break
        index["hash"][start:end] = np.fromiter(map(id_hash, shard_ids), dtype=np.uint64, count=len(shard_ids))
        index["shard"][start:end] = shard
        index["row"][start:end] = np.arange(len(shard_ids))
    if end != sentences:
        raise ValueError(f"{end} ids were given for an index of {sentences} sentences")
    return index[np.argsort(index["hash"], kind="stable")]


def write_index(path: Path, index: NDArray[Any]) -> None:
    """Writes the index as a NumPy file."""
    with path.open("wb") as file:
        file.write(_header(len(index)))
        file.write(index.data)


def _header(sentences: int) -> bytes:
    """The start of a NumPy file (format 1.0) of an index; written out, so that no version of NumPy can change it.

    It also is what a reader compares with: NumPy's own parser of headers is not made for damaged ones.
    """
    text = repr({"descr": INDEX_DTYPE.descr, "fortran_order": False, "shape": (sentences,)})
    padded = text.encode("ascii").ljust(_HEADER_BYTES - 11) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(padded).to_bytes(2, "little") + padded


class Index:
    """Look-up in the index of a store; memory-mapped where the file is on this machine.

    Args:
        folder: Of the store, or of a copy.
        sentences: Of the store.
        name: Of the file.

    Raises:
        DamageError: The file is no such index, or holds another number of sentences.
        StorageError: It cannot be read.
    """

    def __init__(self, folder: Folder, *, sentences: int, name: str = INDEX):
        if not folder.exists(name):
            raise DamageError(f"{folder.url}/{name} is missing")
        size = folder.size(name)
        with folder.open(name) as file:
            header = file.read(_HEADER_BYTES)
            if header != _header(sentences) or size != _HEADER_BYTES + sentences * INDEX_DTYPE.itemsize:
                raise DamageError(
                    f"{folder.url}/{name} is damaged: it is not an index of {sentences} sentences in {size} bytes"
                )
            path = folder.local_path(name)
            self.rows: NDArray[Any]
            if path is not None and sentences:
                self.rows = np.memmap(path, INDEX_DTYPE, "r", offset=_HEADER_BYTES, shape=(sentences,))
            else:
                self.rows = np.frombuffer(file.read(), INDEX_DTYPE)
        # Plain indexing of a buffer costs a fraction of indexing an array; a row is its hash, then shard and row.
        self.rows = np.asarray(self.rows)
        self._words = self.rows.view(np.uint64).reshape(-1, 2).data if sentences else memoryview(b"")

    def find(self, sentence_id: str) -> list[tuple[int, int]]:
        """The (shard, row) of every sentence whose id has the same hash; mostly one, none for an unknown id."""
        wanted = id_hash(sentence_id)
        words = self._words
        first = last = bisect_left(range(len(words)), wanted, key=lambda position: words[position, 0])
        while last < len(words) and words[last, 0] == wanted:
            last += 1
        return [(int(row["shard"]), int(row["row"])) for row in self.rows[first:last]]
