import fcntl
import multiprocessing
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline import index as index_module
from pipeline import reader as reader_module
from pipeline.errors import (
    DamageError,
    FailedSentenceError,
    MissingColumnError,
    PipelineError,
    StoreError,
    UnknownSentenceError,
)
from pipeline.reader import FeatureStore
from pipeline.records import Sentence
from pipeline.schema import Column, ShardFormat
from pipeline.shards import placement
from pipeline.storage import Folder
from support.stores import FORMATS, bilm_columns, features_of, make_sentences, published, read_all, write_store

COLUMNS = (*bilm_columns(2, width=3), Column(name="mean", rows="sentence", width=2, layer=None, direction="both"))
SHARDS = [make_sentences([2, 0, 5]), make_sentences([1, 3, 0, 4], source="b.txt"), make_sentences([2], source="c.txt")]
FAILED = ["b.txt:2"]
GOOD = [sentence for shard in SHARDS for sentence in shard if sentence.id not in FAILED]


@pytest.fixture(params=FORMATS)
def shard_format(request: pytest.FixtureRequest) -> ShardFormat:
    chosen: ShardFormat = request.param
    return chosen


@pytest.fixture
def path(tmp_path: Path, shard_format: ShardFormat) -> Path:
    write_store(Folder(tmp_path / "store"), SHARDS, columns=COLUMNS, shard_format=shard_format, failed=FAILED)
    return tmp_path / "store"


@pytest.mark.parametrize("preload", [False, True])
def test_by_id_by_position_and_in_order(path: Path, preload: bool) -> None:
    store = FeatureStore.open(path, preload=preload)
    assert (len(store), store.failed) == (8, 1)
    assert list(store.ids()) == [sentence.id for shard in SHARDS for sentence in shard]
    assert [features.sentence for features in store] == GOOD
    assert store.positions().tolist() == [0, 1, 2, 3, 5, 6, 7]
    assert [store.good_position(index) for index in range(7)] == [0, 1, 2, 3, 5, 6, 7]
    for position, sentence in zip(store.positions().tolist(), GOOD, strict=True):
        for features in (store[sentence.id], store.at(position), store.at(position - len(store))):
            assert features.sentence == sentence
            assert (features.id, features.tokens, features.text) == (sentence.id, sentence.tokens, sentence.text)
            assert (features.source, features.line) == (sentence.source, sentence.line)
            layers = features.layers()
            assert layers.shape == (3, len(sentence.tokens), 6)
            np.testing.assert_array_equal(layers, published(sentence, COLUMNS))
            np.testing.assert_array_equal(features.layers(only=(2, 0)), published(sentence, COLUMNS)[[2, 0]])
            np.testing.assert_array_equal(features.column("mean"), features_of(sentence, COLUMNS[-1], "float32")[0])
            assert features.column("token").shape == (len(sentence.tokens), 3)


def test_whole_columns_come_shard_by_shard_with_zeros_for_failures(path: Path) -> None:
    store = FeatureStore.open(path)
    for column in COLUMNS:
        blocks = list(store.column(column.name))
        for block, shard in zip(blocks, SHARDS, strict=True):
            expected = [features_of(s, column, "float32") * (s.id not in FAILED) for s in shard]
            np.testing.assert_array_equal(block, np.concatenate(expected))


def test_what_is_not_there_says_so(path: Path) -> None:
    store = FeatureStore.open(path)
    assert "a.txt:1" in store
    assert "b.txt:2" in store
    assert "a.txt:4" not in store
    assert 3 not in store
    with pytest.raises(UnknownSentenceError, match=r"no sentence 'a\.txt:4'; ids look like 'a\.txt:1'") as unknown:
        store["a.txt:4"]
    assert isinstance(unknown.value, KeyError)
    with pytest.raises(UnknownSentenceError, match=r"3 is no id.*store\.at\(position\)"):
        store[3]  # type: ignore[index]
    for position in (8, -9):
        with pytest.raises(UnknownSentenceError, match="not in a store of 8 sentences"):
            store.at(position)
    with pytest.raises(FailedSentenceError, match=r"'b\.txt:2' could not be encoded.*failures/00001\.jsonl"):
        store["b.txt:2"]
    with pytest.raises(FailedSentenceError, match=r"'b\.txt:2' could not be encoded"):
        store.at(4)
    with pytest.raises(MissingColumnError, match="no column 'forward_3'; it has token, forward_1"):
        store.at(0).column("forward_3")
    with pytest.raises(MissingColumnError, match="no column 'forward_3'"):
        list(store.column("forward_3"))
    with pytest.raises(MissingColumnError, match="holds the layers 0, 1, 2, not 3"):
        store.at(0).layers(only=[3])


@pytest.mark.parametrize(
    ("columns", "layers", "reason", "works"),
    [
        (COLUMNS[:2] + COLUMNS[3:4], "all", "does not have both directions", None),
        ((COLUMNS[0], *COLUMNS[3:5]), "0,2", "written with the layers '0,2' alone", (0, 2)),
        (COLUMNS[3:5], "top", "written with the layers 'top' alone", (2,)),
        (
            (Column(name="average", width=6, layer=None, direction="both", derived="mean of layers"),),
            "average",
            "does not have both directions",
            None,
        ),
    ],
)
def test_stores_of_some_columns_do_not_pretend(
    tmp_path: Path, columns: tuple[Column, ...], layers: str, reason: str, works: tuple[int, ...] | None
) -> None:
    write_store(Folder(tmp_path), SHARDS, columns=columns, layers=layers)
    features = FeatureStore.open(tmp_path)["a.txt:3"]
    with pytest.raises(MissingColumnError, match=f"{reason}.*Its columns are {columns[0].name}"):
        features.layers()
    if works is not None:
        np.testing.assert_array_equal(features.layers(only=works), published(SHARDS[0][2], COLUMNS)[list(works)])


def test_layers_that_hold_both_directions_are_stacked_as_they_are(tmp_path: Path) -> None:
    columns = [Column(name=f"layer_{n}", width=4, layer=n, direction="both" if n else "none") for n in range(3)]
    write_store(Folder(tmp_path), SHARDS, columns=columns)
    layers = FeatureStore.open(tmp_path)["a.txt:1"].layers()
    np.testing.assert_array_equal(layers, np.stack([features_of(SHARDS[0][0], c, "float32") for c in columns]))


def test_types_stay_unless_another_is_asked_for(tmp_path: Path, shard_format: ShardFormat) -> None:
    write_store(Folder(tmp_path), SHARDS, columns=COLUMNS, shard_format=shard_format, dtype="float16")
    features = FeatureStore.open(tmp_path)["a.txt:1"]
    assert features.column("token").dtype == features.layers().dtype == np.float16
    assert features.layers(dtype=np.float32).dtype == features.column("mean", dtype="float32").dtype == np.float32
    np.testing.assert_array_equal(features.layers(dtype=np.float32), features.layers().astype(np.float32))


def test_sentences_are_found_by_their_exact_text(tmp_path: Path, shard_format: ShardFormat) -> None:
    lines = ["same", "other", "same", "same "]
    sentences = [
        Sentence(id=f"doc/{line}", tokens=tuple(text.split()), text=text, source="doc", line=line)
        for line, text in enumerate(lines)
    ]
    sentences.append(Sentence(id="list", tokens=("other",), text=None, source="doc", line=9))
    write_store(Folder(tmp_path), [sentences[:2], sentences[2:]], columns=COLUMNS, shard_format=shard_format)
    store = FeatureStore.open(tmp_path)
    assert store.find("same") == ["doc/0", "doc/2"]
    assert store.find("same ") == ["doc/3"]
    assert store.find("other") == ["doc/1", "list"]
    assert store.find("oth") == []


def test_ids_that_break_paths_are_only_text(tmp_path: Path, shard_format: ShardFormat) -> None:
    ids = ["doc", "doc/7", "doc/7/x", ".", "..", "a.b", "$period$", "%2E", "../../x", "\0", "", " ", "é", "e\u0301"]
    sentences = [Sentence(id=key, tokens=(key,), text=None, source="s", line=1) for key in ids]
    write_store(Folder(tmp_path), [sentences], columns=COLUMNS, shard_format=shard_format)
    store = FeatureStore.open(tmp_path)
    assert list(store.ids()) == ids
    for sentence in sentences:
        assert store[sentence.id].sentence == sentence


def test_ids_of_the_same_hash_are_kept_apart(path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(index_module, "id_hash", lambda sentence_id: 7)
    write_store(Folder(tmp_path / "clash"), SHARDS, columns=COLUMNS)
    store = FeatureStore.open(tmp_path / "clash")
    for sentence in GOOD:
        assert store[sentence.id].sentence == sentence
    assert "unknown" not in store


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lengths=st.lists(st.lists(st.integers(0, 4), max_size=5), max_size=5))
def test_any_cut_into_shards_reads_the_same(tmp_path_factory: pytest.TempPathFactory, lengths: list[list[int]]) -> None:
    folder = tmp_path_factory.mktemp("store")
    shards = [make_sentences(part, source=f"{number}.txt") for number, part in enumerate(lengths)]
    write_store(Folder(folder), shards, columns=COLUMNS[:1])
    store = FeatureStore.open(folder)
    flat = [sentence for shard in shards for sentence in shard]
    assert [features.sentence for features in store] == flat
    for position, sentence in enumerate(flat):
        np.testing.assert_array_equal(store.at(position).column("token"), features_of(sentence, COLUMNS[0], "float32"))


def test_more_shards_than_files_kept_open(
    path: Path, monkeypatch: pytest.MonkeyPatch, shard_format: ShardFormat
) -> None:
    monkeypatch.setitem(reader_module._OPEN_SHARDS, shard_format, 1)
    store = FeatureStore.open(path)
    kept = store["a.txt:1"]
    before = len(psutil.Process().open_files())
    for _ in range(20):
        for sentence in GOOD:
            np.testing.assert_array_equal(store[sentence.id].layers(), published(sentence, COLUMNS))
    assert len(psutil.Process().open_files()) <= before + 2
    np.testing.assert_array_equal(kept.layers(), published(SHARDS[0][0], COLUMNS))


def test_a_remote_store_reads_the_same(path: Path) -> None:
    remote = Folder(f"memory://reader-{path.parent.name}")
    for file in sorted(path.rglob("*")):
        if file.is_file():
            remote.write_bytes(file.relative_to(path).as_posix(), file.read_bytes())
    store = FeatureStore.open(remote.url)
    for sentence in GOOD:
        np.testing.assert_array_equal(store[sentence.id].layers(), published(sentence, COLUMNS))
    assert [features.sentence for features in store] == GOOD


def test_preloaded_features_need_no_files(path: Path) -> None:
    store = FeatureStore.open(path, preload=True)
    list(store.ids())
    assert "c.txt:1" in store
    for file in (path / "shards").iterdir():
        file.unlink()
    for sentence in GOOD:
        np.testing.assert_array_equal(store[sentence.id].layers(), published(sentence, COLUMNS))
    assert not [file for file in psutil.Process().open_files() if "/shards/" in file.path and "store" in file.path]


def test_a_pickled_store_is_small_and_opens_the_same_one(path: Path, shard_format: ShardFormat) -> None:
    pickled = pickle.dumps(FeatureStore.open(path))
    assert len(pickled) < 1000
    assert list(pickle.loads(pickled).ids()) == [sentence.id for shard in SHARDS for sentence in shard]
    for file in path.rglob("*.*"):
        file.unlink()
    write_store(Folder(path), SHARDS[:1], columns=COLUMNS, shard_format=shard_format)
    again = pickle.dumps(FeatureStore.open(path))
    write_store(Folder(path), SHARDS[:2], columns=COLUMNS[:1], shard_format=shard_format)
    with pytest.raises(StoreError, match="has become another store"):
        pickle.loads(again)


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.parametrize("preload", [False, True])
def test_processes_read_side_by_side(path: Path, method: str, preload: bool) -> None:
    store = FeatureStore.open(path, preload=preload)
    read_all(store)
    context: Any = multiprocessing.get_context(method)
    processes = [context.Process(target=read_all, args=(store,)) for _ in range(2)]
    for process in processes:
        process.start()
    read_all(store)
    for process in processes:
        process.join(60)
        assert process.exitcode == 0


def test_threads_read_side_by_side(path: Path) -> None:
    store = FeatureStore.open(path)
    errors: list[BaseException] = []

    def run(check: Callable[[FeatureStore], None]) -> None:
        try:
            check(store)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(read_all,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors


def test_files_locked_by_another_process_are_read(path: Path) -> None:
    script = (
        "import fcntl, sys\n"
        "files = [open(name, 'r+b') for name in sys.argv[1:]]\n"
        "for file in files: fcntl.flock(file, fcntl.LOCK_EX); fcntl.lockf(file, fcntl.LOCK_EX)\n"
        "print('locked', flush=True); sys.stdin.read()\n"
    )
    names = [str(file) for file in path.rglob("*") if file.is_file()]
    with subprocess.Popen(
        [sys.executable, "-c", script, *names], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == "locked\n"
        with open(names[0], "rb") as file, pytest.raises(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        read_all(FeatureStore.open(path))
        read_all(FeatureStore.open(path, preload=True))
        holder.communicate("")


def test_no_store_no_manifest_and_damage_are_told(path: Path) -> None:
    with pytest.raises(StoreError, match="no feature store here"):
        FeatureStore.open(path / "elsewhere")
    shard = next((path / "shards").glob("00001-*"))
    whole = shard.read_bytes()
    shard.write_bytes(whole[:-1])
    with pytest.raises(DamageError, match=rf"{shard.name} has \d+ bytes; the manifest says {len(whole)}"):
        FeatureStore.open(path)["b.txt:1"]
    with pytest.raises(DamageError, match=shard.name):
        FeatureStore.open(path, preload=True)
    shard.unlink()
    with pytest.raises(DamageError, match=f"{shard.name} is missing"):
        FeatureStore.open(path)["b.txt:1"]
    np.testing.assert_array_equal(FeatureStore.open(path)["a.txt:1"].layers(), published(SHARDS[0][0], COLUMNS))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_damaged_file_gives_an_error_of_ours_or_an_answer(path: Path, data: st.DataObject) -> None:
    file = data.draw(
        st.sampled_from([path / "index.npy", path / "manifest.json", *sorted((path / "shards").iterdir())])
    )
    whole = file.read_bytes()
    damaged = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    file.write_bytes(damaged)
    try:
        store = FeatureStore.open(path)
        for sentence in GOOD:
            store[sentence.id].layers()
        for features in store:
            assert isinstance(features.sentence, Sentence)
        store.find("x")
        list(store.column("mean"))
    except (UnknownSentenceError, FailedSentenceError):
        pass
    except PipelineError as error:
        assert file.name in str(error)
    finally:
        file.write_bytes(whole)


def test_memory_does_not_grow_with_what_is_read(tmp_path: Path, shard_format: ShardFormat) -> None:
    columns = bilm_columns(1, width=256)
    shards = [make_sentences([200] * 60, source=f"{number}.txt") for number in range(8)]
    ones = np.ones((200, 256), np.float32)
    write_store(
        Folder(tmp_path), shards, columns=columns, shard_format=shard_format, vectors=lambda sentence, column: ones
    )
    script = (
        "import sys, psutil\n"
        "from pipeline import reader\n"
        "from pipeline.reader import FeatureStore\n"
        "reader._MAPPED_BYTES = 2**27\n"
        "store = FeatureStore.open(sys.argv[1])\n"
        "for features in (store.at(0), store.at(70)): features.layers()\n"
        "before = psutil.Process().memory_info().rss\n"
        "for features in store: features.layers()\n"
        "print(psutil.Process().memory_info().rss - before)\n"
    )
    grown = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], check=True, capture_output=True, text=True
    ).stdout
    total = sum(file.stat().st_size for file in (tmp_path / "shards").iterdir())
    assert total > 280 * 2**20
    assert int(grown) < 50 * 2**20


def test_columns_of_a_shard_stand_at_equal_distances(tmp_path: Path) -> None:
    columns = bilm_columns(3, width=17)
    write_store(Folder(tmp_path), [make_sentences([3, 0, 5])], columns=columns)
    layout = FeatureStore.open(tmp_path)._shard(0).layout
    starts = [layout[f"columns/{column.name}"].start for column in columns]
    assert len(set(np.diff(starts))) == 1


def test_mapped_or_not_the_vectors_are_the_same(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mapped = FeatureStore.open(path)
    expected = [features.layers() for features in mapped]
    monkeypatch.setattr(reader_module, "_MAPPED_BYTES", 0)
    read = FeatureStore.open(path)
    for features, layers in zip(read, expected, strict=True):
        np.testing.assert_array_equal(features.layers(), layers)
        assert features.layers().flags.writeable
    monkeypatch.setattr(placement, "_SMALL_BYTES", 0)
    for features, layers in zip(read, expected, strict=True):
        np.testing.assert_array_equal(features.layers(), layers)


def test_reading_imports_neither_torch_nor_beam(path: Path) -> None:
    script = (
        "import sys\n"
        "from pipeline.reader import FeatureStore\n"
        "FeatureStore.open(sys.argv[1])['a.txt:1'].layers()\n"
        "print(sorted({name.partition('.')[0] for name in sys.modules} & {'torch', 'apache_beam'}))\n"
    )
    run = subprocess.run([sys.executable, "-c", script, str(path)], check=True, capture_output=True, text=True)
    assert run.stdout == "[]\n"
