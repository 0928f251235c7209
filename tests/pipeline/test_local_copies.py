"""Stores behind s3:// and gs:// URLs with copies of their files on this machine, read by many processes."""

import multiprocessing
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch.utils.data import DataLoader

from pipeline.errors import ConfigError, DamageError, StorageError
from pipeline.reader import FeatureStore
from pipeline.schema import INDEX, ShardFormat
from pipeline.storage import Folder
from pipeline.torch_data import FeatureDataset, collate
from support.object_stores import BUCKET, Proxy, store_process
from support.stores import FORMATS, bilm_columns, make_sentences, published, read_all, write_store

COLUMNS = bilm_columns(2, width=4)
SHARDS = [make_sentences([1 + n % 5 for n in range(20)], source=f"{number}.txt") for number in range(3)]
SENTENCES = [sentence for shard in SHARDS for sentence in shard]


def contents(proxy: Proxy) -> list[str]:
    """The paths of all requests so far that concern shards or the index."""
    return [request.path for request in proxy.requests if "shards" in request.path or INDEX in request.path]


def fetched(proxy: Proxy) -> list[str]:
    """The paths of the requests so far that fetched bytes of a shard or of the index."""
    gets = [request.path for request in proxy.requests if request.method == "GET"]
    return [path for path in gets if path in contents(proxy) and path.startswith((f"/{BUCKET}/", "/download/"))]


def copies(cache: Path) -> list[str]:
    return sorted(path.name for path in cache.iterdir())


@pytest.mark.parametrize("shard_format", FORMATS)
def test_what_was_read_once_is_not_fetched_again(
    object_store: tuple[str, Proxy], tmp_path: Path, shard_format: ShardFormat
) -> None:
    url, proxy = object_store
    url, cache = f"{url}/{shard_format}", tmp_path / "a" / "cache"
    manifest = write_store(Folder(url), SHARDS, columns=COLUMNS, shard_format=shard_format)
    proxy.requests.clear()
    store = FeatureStore.open(url, cache=cache)
    np.testing.assert_array_equal(store["1.txt:2"].layers(), published(SHARDS[1][1], COLUMNS))
    suffix = Path(manifest.shards[0].file).suffix
    assert copies(cache) == sorted([f"{manifest.shards[1].sha256}{suffix}", f"{manifest.index_sha256}.npy"])
    read_all(store)
    assert len(fetched(proxy)) == len(SHARDS) + 1

    proxy.requests.clear()
    again = FeatureStore.open(url, cache=cache)
    read_all(again)
    assert [features.sentence for features in again] == SENTENCES
    assert all(again[sentence.id].tokens == sentence.tokens for sentence in SENTENCES)
    read_all(FeatureStore.open(url, cache=cache, preload=True))
    assert contents(proxy) == [], "nothing but the manifest is asked for"
    read_all(FeatureStore.open(url))
    assert contents(proxy), "without a cache nothing is kept"


def test_a_store_that_was_rewritten_is_read_anew(object_store: tuple[str, Proxy], tmp_path: Path) -> None:
    url, proxy = object_store
    write_store(Folder(url), SHARDS, columns=COLUMNS)
    read_all(FeatureStore.open(url, cache=tmp_path))
    changed = [SHARDS[0], make_sentences([2, 4], source="1.txt"), SHARDS[2]]
    Folder(url).remove_all("shards")
    write_store(Folder(url), changed, columns=COLUMNS)
    proxy.requests.clear()
    store = FeatureStore.open(url, cache=tmp_path)
    assert [features.sentence for features in store] == [sentence for shard in changed for sentence in shard]
    read_all(store)
    assert store["1.txt:2"].sentence == changed[1][1]
    assert len(fetched(proxy)) == 2, "the shard that changed, and the index"


def test_nothing_but_what_the_manifest_lists_is_kept(object_store: tuple[str, Proxy], tmp_path: Path) -> None:
    url, _ = object_store
    folder = Folder(url)
    (entry,) = write_store(folder, SHARDS[:1], columns=COLUMNS).shards
    data = folder.read_bytes(entry.file)
    folder.write_bytes(entry.file, data[:-1] + bytes([data[-1] ^ 1]))
    store = FeatureStore.open(url, cache=tmp_path)
    with pytest.raises(DamageError, match=rf"{entry.file} is damaged: its digest"):
        store.at(0)
    folder.remove(entry.file)
    with pytest.raises(DamageError, match=rf"{entry.file} is missing, though the manifest lists it"):
        store.at(0)
    assert not (tmp_path / f"{entry.sha256}.h5").exists()
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) == 0
    folder.write_bytes(entry.file, data)
    read_all(store)
    assert copies(tmp_path) == [f"{entry.sha256}.h5"]


def test_a_place_that_cannot_hold_copies_is_refused(object_store: tuple[str, Proxy], tmp_path: Path) -> None:
    url, _ = object_store
    write_store(Folder(url), SHARDS[:1], columns=COLUMNS)
    with pytest.raises(ConfigError, match="memory://cache is not a folder of this machine"):
        FeatureStore.open(url, cache="memory://cache")
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match=r"cannot write .*file/cache/"):
        FeatureStore.open(url, cache=tmp_path / "file" / "cache").at(0)


@pytest.mark.parametrize(("kind", "method"), [("s3", "fork"), ("gs", "fork"), ("s3", "spawn")])
@pytest.mark.parametrize("cached", [False, True])
def test_workers_read_a_remote_store_also_after_this_process_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, method: str, cached: bool
) -> None:
    with store_process(kind) as (server, environment):
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        url = f"{kind}://{BUCKET}/store"
        write_store(Folder(url), SHARDS, columns=COLUMNS)
        store = FeatureStore.open(url, cache=tmp_path if cached else None)
        store["0.txt:1"].layers()
        loader = DataLoader(
            FeatureDataset(store),
            batch_size=4,
            shuffle=True,
            num_workers=2,
            collate_fn=collate,
            multiprocessing_context=method,
            timeout=120,
            persistent_workers=True,
        )
        for _ in range(2):
            layers = {sentence.id: published(sentence, COLUMNS) for sentence in SENTENCES}
            for batch in loader:
                for row, (sentence_id, length) in enumerate(zip(batch.ids, batch.lengths.tolist(), strict=True)):
                    np.testing.assert_array_equal(batch.layers[row, :, :length], layers.pop(sentence_id))
            assert not layers
            started = time.monotonic()
            np.testing.assert_array_equal(store.at(25).layers(), published(SENTENCES[25], COLUMNS))
            assert time.monotonic() - started < 10, "what forked processes do must not deafen this one"
            if cached:
                server.kill()  # by now there is a copy of all


def test_processes_that_want_the_same_file_fetch_it_once(object_store: tuple[str, Proxy], tmp_path: Path) -> None:
    url, proxy = object_store
    write_store(Folder(url), SHARDS[:1], columns=COLUMNS)
    proxy.reset()
    proxy.seconds = 0.3
    store = FeatureStore.open(url, cache=tmp_path)
    context: Any = multiprocessing.get_context("fork")
    processes = [context.Process(target=read_all, args=(store,)) for _ in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0] * 4
    assert len(fetched(proxy)) == 1


def test_a_fetch_that_is_killed_leaves_nothing_that_is_taken_for_a_copy(
    object_store: tuple[str, Proxy], tmp_path: Path
) -> None:
    url, proxy = object_store
    write_store(Folder(url), SHARDS[:1], columns=COLUMNS)
    store = FeatureStore.open(url, cache=tmp_path)
    proxy.seconds = 1.0
    context: Any = multiprocessing.get_context("fork")
    process = context.Process(target=read_all, args=(store,))
    process.start()
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob(".tmp-*")):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.kill()
    process.join(60)
    proxy.seconds = 0.0
    assert all(name.startswith(".tmp-") for name in copies(tmp_path))
    next(tmp_path.glob(".tmp-*")).write_bytes(b"half a file")
    read_all(store)
    assert copies(tmp_path) == [f"{store.manifest.shards[0].sha256}.h5"]
