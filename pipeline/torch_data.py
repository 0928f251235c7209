"""Features for training in torch: a data set by position, a shuffled stream, and batches with a mask.

store = FeatureStore.open("features/")
loader = DataLoader(FeatureDataset(store), batch_size=32, shuffle=True, collate_fn=collate, num_workers=2)
for batch in loader:
    mixed = scalar_mix(batch.layers, batch.mask)
"""

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Dataset, IterableDataset, get_worker_info

from pipeline.errors import ConfigError
from pipeline.features import Features
from pipeline.reader import FeatureStore


class Item(NamedTuple):
    """One sentence.

    Attributes:
        id: Its id, to join labels by.
        layers: (layers, tokens, width) in the stored dtype unless another was asked for.
    """

    id: str
    layers: Tensor


class Batch(NamedTuple):
    """Some sentences, padded with zeros behind the last token.

    Attributes:
        ids: One a sentence.
        lengths: (batch) int64, tokens of each sentence.
        layers: (batch, layers, tokens, width).
        mask: (batch, tokens) bool, true where there is a token.
    """

    ids: tuple[str, ...]
    lengths: Tensor
    layers: Tensor
    mask: Tensor


def collate(items: Sequence[Item]) -> Batch:
    """The sentences as one batch; any of them may have no tokens."""
    lengths = torch.tensor([item.layers.shape[1] for item in items])
    first = items[0].layers
    tokens = int(lengths.max())
    layers = first.new_zeros(len(items), first.shape[0], tokens, first.shape[2])
    for row, item in enumerate(items):
        layers[row, :, : item.layers.shape[1]] = item.layers
    mask = torch.arange(tokens)[None, :] < lengths[:, None]
    return Batch(tuple(item.id for item in items), lengths, layers, mask)


class _Choice:
    """What is taken of a sentence."""

    def __init__(self, store: FeatureStore, *, only: Sequence[int] | None, column: str | None, dtype: str | None):
        if only is not None and column is not None:
            raise ConfigError("name layers with only=..., or a column, not both")
        self._only = only
        self._column = column
        self._dtype = dtype
        # A store that lacks them says so here, not in a worker.
        if column is None:
            store.layout.stacking(only)
        elif store.layout.column(column).rows != "token":
            raise ConfigError(f"column {column} has no rows for tokens")

    def item(self, features: Features) -> Item:
        if self._column is None:
            array = features.layers(only=self._only, dtype=self._dtype)
        else:
            array = features.column(self._column, dtype=self._dtype)[None]
        return Item(features.id, torch.from_numpy(array))


class FeatureDataset(Dataset[Item]):
    """The sentences of a store by position, failed ones left out.

    With the store opened as `preload=True` the features are in memory, once for all forked workers and once for each
    spawned one; otherwise every item is read from disk when it is asked for.

    Args:
        store: Opened in this process; workers open its files anew.
        only: Layer numbers; all of the model by default.
        column: The name of one column to take in place of layers, as the only layer.
        dtype: Of the items; the stored one by default.

    Raises:
        MissingColumnError: The store does not hold the layers or the column.
    """

    def __init__(
        self,
        store: FeatureStore,
        *,
        only: Sequence[int] | None = None,
        column: str | None = None,
        dtype: str | None = None,
    ):
        self._store = store
        self._choice = _Choice(store, only=only, column=column, dtype=dtype)

    def __len__(self) -> int:
        return len(self._store) - self._store.failed

    def __getitem__(self, index: int) -> Item:
        if not -len(self) <= index < len(self):
            raise IndexError(f"item {index} of {len(self)}")
        return self._choice.item(self._store.at(self._store.good_position(index % len(self))))


class FeatureStream(IterableDataset[Item]):
    """The sentences of a store in another order every epoch, a few shards at a time; failed ones are left out.

    Shards are put in a random order, and the sentences of `mixed_shards` at a time are shuffled among themselves. That
    sequence, the same in all processes, is cut into equal parts for the ranks, and a rank's into parts for its workers:
    each sentence comes exactly once an epoch, and the parts differ in length by one at most.

    Args:
        store: Opened in this process; workers open its files anew.
        only: Layer numbers; all of the model by default.
        column: The name of one column to take in place of layers, as the only layer.
        dtype: Of the items; the stored one by default.
        seed: The same seed and epoch give the same order.
        mixed_shards: More mix better and keep more files in use.
        rank: Which part is this process's; that of torch.distributed by default.
        ranks: Number of parts; that of torch.distributed by default, or 1.

    Raises:
        MissingColumnError: The store does not hold the layers or the column.
    """

    def __init__(
        self,
        store: FeatureStore,
        *,
        only: Sequence[int] | None = None,
        column: str | None = None,
        dtype: str | None = None,
        seed: int = 0,
        mixed_shards: int = 8,
        rank: int | None = None,
        ranks: int | None = None,
    ):
        distributed = torch.distributed.is_available() and torch.distributed.is_initialized()
        self._ranks = ranks if ranks is not None else torch.distributed.get_world_size() if distributed else 1
        self._rank = rank if rank is not None else torch.distributed.get_rank() if distributed else 0
        if not 0 <= self._rank < self._ranks:
            raise ConfigError(f"rank {self._rank} is not one of {self._ranks} ranks")
        if mixed_shards < 1:
            raise ConfigError(f"mixed shards {mixed_shards} is below 1")
        self._store = store
        self._choice = _Choice(store, only=only, column=column, dtype=dtype)
        self._seed = seed
        self._mixed_shards = mixed_shards
        # Shared memory, so that workers that live through several epochs see the change.
        self._epoch = torch.zeros((), dtype=torch.int64)
        self._epoch.share_memory_()  # type: ignore[no-untyped-call]

    def set_epoch(self, epoch: int) -> None:
        """Chooses the order of the next pass; without it every pass has the same."""
        self._epoch.fill_(epoch)

    def __len__(self) -> int:
        """Sentences of this rank."""
        start, stop = self._part(self._rank, self._ranks, 0, len(self._store) - self._store.failed)
        return stop - start

    def __iter__(self) -> Iterator[Item]:
        start, stop = self._part(self._rank, self._ranks, 0, len(self._store) - self._store.failed)
        worker = get_worker_info()
        if worker is not None:
            start, stop = self._part(worker.id, worker.num_workers, start, stop)
        for position in self._sequence(start, stop):
            yield self._choice.item(self._store.at(position))

    @staticmethod
    def _part(number: int, parts: int, start: int, stop: int) -> tuple[int, int]:
        count = stop - start
        return start + count * number // parts, start + count * (number + 1) // parts

    def _sequence(self, start: int, stop: int) -> Iterator[int]:
        """The positions in the store that stand from start up to stop in the order of this epoch."""
        shards = self._store.manifest.shards
        seeds = [self._seed, int(self._epoch)]
        order = np.random.default_rng(seeds).permutation(len(shards)).tolist()
        firsts = [0, *accumulate(shard.sentences for shard in shards)]
        end = 0
        for group in range(0, len(order), self._mixed_shards):
            members = order[group : group + self._mixed_shards]
            begin, end = end, end + sum(shards[number].sentences - shards[number].failed for number in members)
            if begin < stop and end > start:
                positions = np.concatenate([firsts[number] + self._store.good_rows(number) for number in members])
                shuffled: NDArray[np.int64] = np.random.default_rng([*seeds, group + 1]).permutation(positions)
                yield from shuffled[max(0, start - begin) : stop - begin].tolist()
