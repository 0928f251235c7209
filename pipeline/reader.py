"""Reading a feature store: by id, by position, in document order, or column by column.

    store = FeatureStore.open("features/")
    store["a.txt:3"].layers()           # (layers, tokens, 2 x width), as published

Needs neither torch nor Beam. A store is small to pickle and opens its files anew in every process, so it can be handed
to spawned and forked workers alike.
"""

import os
import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterator
from itertools import accumulate
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import (
    ConfigError,
    DamageError,
    FailedSentenceError,
    StorageError,
    StoreError,
    UnknownSentenceError,
)
from pipeline.features import Features, Layout
from pipeline.index import Index
from pipeline.local_copies import copy_of
from pipeline.manifest import Manifest
from pipeline.schema import INDEX, STATUS_FAILED
from pipeline.shards import ShardReader, open_shard
from pipeline.storage import Folder, StoredFile

# Open files a store keeps; those of a Parquet shard hold a decoded row group as well.
_OPEN_SHARDS = {"hdf5": 256, "parquet": 16}

# Up to which a store is mapped. It then takes as much memory as is read of it, which the system can have back, and
# short sentences are read twice as fast.
_MAPPED_BYTES = 2**30


class FeatureStore:
    """A complete store, opened for reading.

    `len(store)` counts all sentences, failed ones included, since each keeps its place; iteration skips those and
    `failed` counts them.

    Attributes:
        manifest: What the store holds.
        columns: Its columns by name, in order.
        layout: Which of them make up the published layers.
    """

    _pid: int
    _lock: threading.Lock
    _opened_index: Index | None
    _shards: OrderedDict[int, ShardReader]
    _layouts: dict[int, Any]

    def __init__(self, folder: Folder, manifest: Manifest, *, preload: bool, cache: Folder | None = None):
        self.manifest = manifest
        self.columns = {column.name: column for column in manifest.columns}
        self.layout = Layout(manifest, folder.url)
        self._folder = folder
        self._preload = preload
        self._cache = cache
        self._mapped = sum(shard.bytes for shard in manifest.shards) <= _MAPPED_BYTES
        self._starts = [0, *accumulate(shard.sentences for shard in manifest.shards)]
        self._good_starts = [0, *accumulate(shard.sentences - shard.failed for shard in manifest.shards)]
        self._reset()

    @classmethod
    def open(
        cls,
        url: str | os.PathLike[str],
        *,
        preload: bool = False,
        cache: str | os.PathLike[str] | None = None,
    ) -> Self:
        """The store at a path or URL.

        Args:
            url: The folder with the manifest.
            preload: Reads every shard into memory now, each once. Without it, what is read is not kept; only that HDF5
                files of this machine are mapped if they come to no more than 1 GB in all.
            cache: A local folder that keeps a copy of every shard of which anything is read, for all processes and for
                the next time. It grows to the size of the store. Without it, of a remote store only the bytes that
                are asked for are fetched, each time.

        Raises:
            ConfigError: The cache is not on this machine.
            StoreError: There is no store, it is unfinished, or of a newer format.
            DamageError: The manifest, or with `preload` a shard, is not as it was written.
            StorageError: A file cannot be read.
        """
        folder, copies = Folder(url), None if cache is None else Folder(cache)
        if copies is not None and not copies.is_local:
            raise ConfigError(f"the cache {copies.url} is not a folder of this machine")
        store = cls(folder, Manifest.read(folder), preload=preload, cache=copies)
        if preload:
            for number in range(len(store.manifest.shards)):
                store._shard(number)
        return store

    @property
    def failed(self) -> int:
        """Sentences that could not be encoded."""
        return self.manifest.failed

    def __len__(self) -> int:
        return self.manifest.sentences

    def __repr__(self) -> str:
        return f"<FeatureStore {self._folder.url}: {len(self)} sentences, {self.manifest.tokens} tokens>"

    def __contains__(self, sentence_id: object) -> bool:
        return isinstance(sentence_id, str) and self._locate(sentence_id) is not None

    def __getitem__(self, sentence_id: str) -> Features:
        """The features of a sentence by its id.

        Raises:
            UnknownSentenceError: There is no such id.
            FailedSentenceError: The sentence could not be encoded.
        """
        if not isinstance(sentence_id, str):
            raise UnknownSentenceError(f"{sentence_id!r} is no id, ids are strings; by position use store.at(position)")
        found = self._locate(sentence_id)
        if found is None:
            example = f"; ids look like {next(self.ids())!r}" if len(self) else ""
            raise UnknownSentenceError(f"{self._folder.url} holds no sentence {sentence_id!r}{example}")
        return self._features(*found)

    def at(self, position: int) -> Features:
        """The features of a sentence by its position in document order, from 0 or, if negative, from the end.

        Raises:
            UnknownSentenceError: The store is not that long.
            FailedSentenceError: The sentence could not be encoded.
        """
        count = self._starts[-1]
        if not -count <= position < count:
            raise UnknownSentenceError(f"position {position} is not in a store of {count} sentences")
        position %= count
        shard = bisect_right(self._starts, position) - 1
        return self._features(shard, position - self._starts[shard])

    def __iter__(self) -> Iterator[Features]:
        """The features of all sentences in document order, without the failed ones."""
        for number in range(len(self.manifest.shards)):
            shard = self._shard(number)
            for row in np.flatnonzero(shard.status != STATUS_FAILED).tolist():
                yield Features(self.layout, shard, row)

    def ids(self) -> Iterator[str]:
        """The ids of all sentences in document order, failed ones included."""
        for number in range(len(self.manifest.shards)):
            yield from self._shard(number).ids()

    def find(self, text: str) -> list[str]:
        """The ids of the sentences with exactly this text; of those stored without, with these tokens in a row.

        Reads all texts of the store.
        """
        shards = (self._shard(number) for number in range(len(self.manifest.shards)))
        return [shard.id(row) for shard in shards for row in shard.find(text)]

    def column(self, name: str) -> Iterator[NDArray[Any]]:
        """A column of the whole store, shard by shard: (rows, width) each, of tokens, sentences or spans.

        Failed sentences keep their rows, which are zero.

        Raises:
            MissingColumnError: The store does not hold it.
        """
        self.layout.column(name)
        for number in range(len(self.manifest.shards)):
            shard = self._shard(number)
            yield shard.block(name, 0, len(shard))

    def good_rows(self, shard: int) -> NDArray[np.int64]:
        """The rows of a shard, by its number, whose sentences could be encoded."""
        entry = self.manifest.shards[shard]
        return (
            np.flatnonzero(self._shard(shard).status != STATUS_FAILED) if entry.failed else np.arange(entry.sentences)
        )

    def good_position(self, index: int) -> int:
        """The position of a sentence counted, from 0, among those that could be encoded."""
        shard = bisect_right(self._good_starts, index) - 1
        row = index - self._good_starts[shard]
        return self._starts[shard] + (int(self.good_rows(shard)[row]) if self.manifest.shards[shard].failed else row)

    def positions(self) -> NDArray[np.int64]:
        """The positions of all sentences that could be encoded, in document order."""
        numbers = range(len(self.manifest.shards))
        return np.concatenate([np.arange(0), *(self._starts[number] + self.good_rows(number) for number in numbers)])

    def _locate(self, sentence_id: str) -> tuple[int, int] | None:
        for shard, row in self._index().find(sentence_id):
            if shard >= len(self.manifest.shards) or row >= self.manifest.shards[shard].sentences:
                raise DamageError(f"{self._folder.url}/{INDEX} is damaged: it names row {row} of shard {shard}")
            if self._shard(shard).id(row) == sentence_id:
                return shard, row
        return None

    def _features(self, number: int, row: int) -> Features:
        shard = self._shard(number)
        if shard.status[row] == STATUS_FAILED:
            raise FailedSentenceError(
                f"the sentence {shard.id(row)!r} could not be encoded and has no features; "
                f"failures/{number:05d}.jsonl of the store says why"
            )
        return Features(self.layout, shard, row)

    def _index(self) -> Index:
        self._reset_after_fork()
        if self._opened_index is None:
            file = self._file(INDEX, self.manifest.index_sha256)
            self._opened_index = Index(file.folder, sentences=len(self), name=file.name)
        return self._opened_index

    def _shard(self, number: int) -> ShardReader:
        self._reset_after_fork()
        with self._lock:
            shard = self._shards.get(number)
            if shard is None:
                shard = self._shards[number] = self._open(number)
                if not self._preload and len(self._shards) > _OPEN_SHARDS[self.manifest.shard_format]:
                    self._shards.popitem(last=False)
            else:
                self._shards.move_to_end(number)
            return shard

    def _file(self, name: str, sha256: str) -> StoredFile:
        file = StoredFile(self._folder, name)
        return file if self._cache is None else copy_of(file, sha256=sha256, cache=self._cache)

    def _open(self, number: int) -> ShardReader:
        entry = self.manifest.shards[number]
        name = f"{self._folder.url}/{entry.file}"
        try:
            file = self._file(entry.file, entry.sha256).open()
        except StorageError:
            if self._folder.exists(entry.file):
                raise
            raise DamageError(f"{name} is missing, though the manifest lists it") from None
        size = file.seek(0, os.SEEK_END)
        if size != entry.bytes:
            raise DamageError(f"{name} has {size} bytes; the manifest says {entry.bytes}")
        file.seek(0)
        shard = open_shard(
            file,
            name=name,
            shard_format=self.manifest.shard_format,
            columns=self.manifest.columns,
            dtype=self.manifest.dtype,
            preload=self._preload,
            mapped=self._mapped,
            layout=self._layouts.get(number),
        )
        self._layouts[number] = shard.layout
        if len(shard) != entry.sentences:
            raise DamageError(f"{name} holds {len(shard)} sentences; the manifest says {entry.sentences}")
        return shard

    def _reset(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._opened_index = None
        self._shards = OrderedDict()
        # So that a shard whose turn came to be closed opens again in microseconds.
        self._layouts = {}

    def _reset_after_fork(self) -> None:
        """A forked process shares file positions and locks with its parent, so it opens its own files.

        What was preloaded is plain memory, which it keeps.
        """
        if self._pid != os.getpid():
            shards = self._shards
            self._reset()
            if self._preload:
                self._shards = shards

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, (type(self), self._folder.url, self._preload, self._cache, self.manifest.fingerprint)


def _reopen(kind: type[FeatureStore], url: str, preload: bool, cache: Folder | None, fingerprint: str) -> FeatureStore:
    """The store of another process, with whose manifest it could be large to pickle; shards are read when asked for."""
    folder = Folder(url)
    manifest = Manifest.read(folder)
    if manifest.fingerprint != fingerprint:
        raise StoreError(f"{url} has become another store since it was opened; open it again")
    return kind(folder, manifest, preload=preload, cache=cache)
