import multiprocessing
import pickle
import subprocess
import sys
from collections import Counter
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader

from elmo_model.scalar_mix import LayerNorm, ScalarMix
from pipeline.errors import ConfigError, MissingColumnError
from pipeline.reader import FeatureStore
from pipeline.schema import Column, ShardFormat
from pipeline.storage import Folder
from pipeline.torch_data import Batch, FeatureDataset, FeatureStream, Item, collate
from support.ranks import stream_of_rank
from support.stores import FORMATS, bilm_columns, make_sentences, write_store

COLUMNS = (*bilm_columns(2, width=3), Column(name="mean", rows="sentence", width=2, layer=None, direction="both"))
SHARDS = [make_sentences([length % 5 for length in range(9)], source=f"{number}.txt") for number in range(5)]
FAILED = ["0.txt:3", "2.txt:1", "4.txt:9"]
GOOD = [sentence.id for shard in SHARDS for sentence in shard if sentence.id not in FAILED]


@pytest.fixture(params=FORMATS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> FeatureStore:
    shard_format: ShardFormat = request.param
    write_store(Folder(tmp_path), SHARDS, columns=COLUMNS, shard_format=shard_format, failed=FAILED)
    return FeatureStore.open(tmp_path)


def check(batch: Batch, store: FeatureStore) -> None:
    """Every sentence of the batch is what the store holds, and padding is zero and masked."""
    assert batch.layers.shape == (len(batch.ids), 3, int(batch.lengths.max()), 6)
    assert batch.mask.shape == (len(batch.ids), int(batch.lengths.max()))
    assert torch.equal(batch.mask.sum(1), batch.lengths)
    for row, sentence_id in enumerate(batch.ids):
        length = int(batch.lengths[row])
        np.testing.assert_array_equal(batch.layers[row, :, :length].numpy(), store[sentence_id].layers())
        assert not batch.layers[row, :, length:].any()


def test_items_are_the_sentences_that_did_not_fail(store: FeatureStore) -> None:
    dataset = FeatureDataset(store)
    assert len(dataset) == len(GOOD)
    assert [dataset[index].id for index in range(len(dataset))] == GOOD
    assert dataset[-1].id == GOOD[-1]
    np.testing.assert_array_equal(dataset[4].layers.numpy(), store[GOOD[4]].layers())
    for index in (len(GOOD), -len(GOOD) - 1):
        with pytest.raises(IndexError):
            dataset[index]


def test_layers_columns_and_types_by_choice(store: FeatureStore) -> None:
    full = store[GOOD[1]].layers()
    assert torch.equal(FeatureDataset(store, only=(2, 0))[1].layers, torch.from_numpy(full[[2, 0]]))
    one = FeatureDataset(store, column="backward_2", dtype="float16")[1].layers
    assert one.dtype == torch.float16
    np.testing.assert_array_equal(one.numpy(), full[2:, :, 3:].astype(np.float16))
    for data in (FeatureDataset, FeatureStream):
        with pytest.raises(MissingColumnError, match="not 3"):
            data(store, only=[3])
        with pytest.raises(MissingColumnError, match="no column 'x'"):
            data(store, column="x")
        with pytest.raises(ConfigError, match="not both"):
            data(store, only=[1], column="token")
        with pytest.raises(ConfigError, match="mean has no rows for tokens"):
            data(store, column="mean")


def test_types_survive(tmp_path: Path) -> None:
    for shard_format in FORMATS:
        write_store(
            Folder(tmp_path / shard_format), SHARDS[:1], columns=COLUMNS, shard_format=shard_format, dtype="float16"
        )
        item = FeatureDataset(FeatureStore.open(tmp_path / shard_format))[1]
        assert item.layers.dtype == torch.float16
        assert collate([item]).layers.dtype == torch.float16


def test_batches_of_short_and_empty_sentences() -> None:
    items = [Item("empty", torch.ones(3, 0, 4)), Item("three", torch.ones(3, 3, 4))]
    batch = collate(items)
    assert batch.ids == ("empty", "three")
    assert batch.layers.shape == (2, 3, 3, 4)
    assert batch.mask.tolist() == [[False] * 3, [True] * 3]
    assert batch.lengths.tolist() == [0, 3]
    assert not batch.layers[0].any()
    nothing = collate(items[:1])
    assert nothing.layers.shape == (1, 3, 0, 4)
    assert nothing.mask.shape == (1, 0)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_read_every_item_each_epoch(store: FeatureStore, method: str) -> None:
    dataset = FeatureDataset(store)
    check(collate([dataset[0], dataset[1]]), store)
    assert len(pickle.dumps(dataset)) < 2000
    loader = DataLoader(
        dataset,
        batch_size=7,
        shuffle=True,
        num_workers=2,
        collate_fn=collate,
        multiprocessing_context=method,
        persistent_workers=True,
    )
    for _ in range(2):
        seen: list[str] = []
        for batch in loader:
            check(batch, store)
            seen += batch.ids
        assert sorted(seen) == sorted(GOOD)


def test_many_random_reads_in_forked_workers_are_right(tmp_path: Path) -> None:
    shards = [make_sentences([n % 4 for n in range(500)], source=f"{number}.txt") for number in range(4)]
    write_store(Folder(tmp_path), shards, columns=bilm_columns(2, width=2))
    store = FeatureStore.open(tmp_path)
    expected = {features.id: float(features.layers().astype(np.float64).sum()) for features in store}
    loader = DataLoader(
        FeatureDataset(store),
        batch_size=100,
        sampler=torch.randint(len(store), (10_000,)).tolist(),
        num_workers=2,
        collate_fn=collate,
        multiprocessing_context="fork",
    )
    count = 0
    for batch in loader:
        sums = batch.layers.double().sum((1, 2, 3)).tolist()
        for sentence_id, total in zip(batch.ids, sums, strict=True):
            assert total == pytest.approx(expected[sentence_id], abs=1e-9)
            count += 1
    assert count == 10_000


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_preloaded_store_serves_workers(tmp_path: Path, method: str) -> None:
    write_store(Folder(tmp_path), SHARDS, columns=COLUMNS, failed=FAILED)
    dataset = FeatureDataset(FeatureStore.open(tmp_path, preload=True))
    assert len(pickle.dumps(dataset)) < 2**20
    loader = DataLoader(dataset, batch_size=8, num_workers=1, collate_fn=collate, multiprocessing_context=method)
    assert [sentence_id for batch in loader for sentence_id in batch.ids] == GOOD


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    ranks=st.integers(1, 7),
    mixed=st.integers(1, 7),
    seed=st.integers(0, 2**32),
    epoch=st.integers(0, 2**40),
    data=st.data(),
)
def test_ranks_share_an_epoch_without_repeats_or_losses(
    store: FeatureStore, ranks: int, mixed: int, seed: int, epoch: int, data: st.DataObject
) -> None:
    parts = []
    for rank in range(ranks):
        stream = FeatureStream(store, seed=seed, mixed_shards=mixed, rank=rank, ranks=ranks)
        stream.set_epoch(epoch)
        parts.append([item.id for item in stream])
        assert len(parts[-1]) == len(stream)
    assert Counter(list(chain.from_iterable(parts))) == Counter(GOOD)
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    whole = FeatureStream(store, seed=seed, mixed_shards=mixed)
    whole.set_epoch(epoch)
    assert [item.id for item in whole] == list(chain.from_iterable(parts))


def test_epochs_and_seeds_change_the_order_and_mix_shards(store: FeatureStore) -> None:
    def order(seed: int, epoch: int, mixed_shards: int = 8) -> list[str]:
        stream = FeatureStream(store, seed=seed, mixed_shards=mixed_shards)
        stream.set_epoch(epoch)
        return [item.id for item in stream]

    assert order(0, 0) == order(0, 0)
    assert len({tuple(order(seed, epoch)) for seed in (0, 1) for epoch in (0, 1, 2)}) == 6
    assert order(0, 0) != GOOD
    sources = [sentence_id.partition(":")[0] for sentence_id in order(3, 0, mixed_shards=1)]
    assert len([1 for a, b in pairwise(sources) if a != b]) == len(SHARDS) - 1
    mixed = [sentence_id.partition(":")[0] for sentence_id in order(3, 0)]
    assert len([1 for a, b in pairwise(mixed) if a != b]) > 2 * len(SHARDS)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_of_two_ranks_share_a_stream(tmp_path: Path, method: str) -> None:
    write_store(Folder(tmp_path), SHARDS, columns=COLUMNS, failed=FAILED)
    store = FeatureStore.open(tmp_path)
    orders = []
    for rank in range(2):
        stream = FeatureStream(store, seed=5, rank=rank, ranks=2)
        loader: DataLoader[Any] = DataLoader(
            stream,
            batch_size=4,
            num_workers=2,
            collate_fn=collate,
            multiprocessing_context=method,
            persistent_workers=True,
        )
        for epoch in range(2):
            stream.set_epoch(epoch)
            seen: list[str] = []
            for batch in loader:
                check(batch, store)
                seen += batch.ids
            orders.append(seen)
    for epoch in range(2):
        assert Counter(orders[epoch] + orders[2 + epoch]) == Counter(GOOD)
    assert orders[0] != orders[1]


def test_distributed_training_needs_no_numbers(tmp_path: Path) -> None:
    write_store(Folder(tmp_path / "store"), SHARDS, columns=COLUMNS, failed=FAILED)
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    processes = [context.Process(target=stream_of_rank, args=(rank, 2, str(tmp_path), results)) for rank in range(2)]
    for process in processes:
        process.start()
    parts = [results.get(timeout=300) for _ in processes]
    for process in processes:
        process.join(60)
    assert Counter(parts[0] + parts[1]) == Counter(GOOD)
    assert abs(len(parts[0]) - len(parts[1])) <= 1


def test_impossible_ranks_are_refused(store: FeatureStore) -> None:
    with pytest.raises(ConfigError, match="rank 2 is not one of 2 ranks"):
        FeatureStream(store, rank=2, ranks=2)
    with pytest.raises(ConfigError, match="mixed shards 0 is below 1"):
        FeatureStream(store, mixed_shards=0)


@pytest.mark.parametrize("layer_norm", [None, "bilm-tf"])
def test_a_mix_is_trained_on_stored_layers_without_the_model(store: FeatureStore, layer_norm: LayerNorm | None) -> None:
    torch.manual_seed(0)
    mix = ScalarMix(3, layer_norm=layer_norm)
    head = torch.nn.Linear(6, 1)
    optimizer = torch.optim.Adam([*mix.parameters(), *head.parameters()], lr=0.05)
    loader = DataLoader(FeatureStream(store), batch_size=8, collate_fn=collate)
    losses = []
    for _ in range(10):
        for batch in loader:
            mixed = mix(batch.layers, batch.mask)
            assert mixed.shape == (*batch.mask.shape, 6)
            assert torch.isfinite(mixed).all()
            assert not mixed[~batch.mask].any()
            # What is to be learned stands in the second layer alone.
            target = batch.layers[:, 1, :, 0]
            loss = ((head(mixed)[..., 0] - target)[batch.mask] ** 2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    assert losses[-1] < losses[0] / 2
    weights = mix.layer_weights().tolist()
    assert sum(weights) == pytest.approx(1)
    assert weights[1] > max(weights[0], weights[2])


def test_training_on_features_loads_no_model() -> None:
    script = (
        "import sys\n"
        "from pipeline.torch_data import FeatureDataset, collate\n"
        "from elmo_model.scalar_mix import ScalarMix\n"
        "print(sorted(name for name in sys.modules if name.startswith('elmo_model.')))\n"
    )
    run = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert run.stdout == "['elmo_model.scalar_mix']\n"
