from pathlib import Path

import pytest

from pipeline.commit import commit
from pipeline.errors import DamageError, IncompleteError
from pipeline.planning import Plan
from pipeline.reader import FeatureStore
from pipeline.schema import INDEX, MANIFEST, ShardFormat, receipt_name, task_name
from pipeline.storage import Folder
from support.stores import FORMATS, bilm_columns, make_sentences, write_finished_shards

COLUMNS = bilm_columns(1, width=2)


def finished(folder: Folder, shard_format: ShardFormat = "hdf5") -> Plan:
    shards = [make_sentences([2, 0]), make_sentences([1, 3], source="b.txt"), make_sentences([1], source="c.txt")]
    return write_finished_shards(folder, shards, columns=COLUMNS, shard_format=shard_format, failed=["b.txt:2"])


def contents(path: Path) -> dict[str, bytes]:
    return {str(file.relative_to(path)): file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file()}


@pytest.mark.parametrize("shard_format", FORMATS)
def test_a_store_can_be_opened_after_it_and_not_before(tmp_path: Path, shard_format: ShardFormat) -> None:
    folder = Folder(tmp_path)
    plan = finished(folder, shard_format)
    with pytest.raises(Exception, match="not finished"):
        FeatureStore.open(tmp_path)
    folder.write_bytes(task_name(0), b"task")
    manifest = commit(folder, plan)
    assert manifest.fingerprint == plan.fingerprint
    assert manifest.failed == 1
    assert not (tmp_path / "tasks").exists()
    assert list(FeatureStore.open(tmp_path).ids()) == ["a.txt:1", "a.txt:2", "b.txt:1", "b.txt:2", "c.txt:1"]


def test_again_and_from_any_point_it_writes_the_same(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    plan = finished(folder)
    commit(folder, plan)
    once = contents(tmp_path)
    commit(folder, plan)
    assert contents(tmp_path) == once
    for lost in (MANIFEST, INDEX):
        folder.remove(lost)
        commit(folder, plan)
        assert contents(tmp_path) == once


def test_shards_that_are_not_done_are_named_and_nothing_is_written(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    plan = finished(folder)
    folder.remove(receipt_name(0))
    path = next((tmp_path / "shards").glob("00002-*"))
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(IncompleteError, match=r"2 of 3 shards are not finished \(0, 2\); run the same dump again"):
        commit(folder, plan)
    assert not folder.exists(MANIFEST)
    assert not folder.exists(INDEX)


def test_a_shard_that_cannot_be_read_stops_it(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    plan = finished(folder)
    path = next((tmp_path / "shards").glob("00001-*"))
    path.write_bytes(bytes(path.stat().st_size))
    with pytest.raises(DamageError, match="shards/00001-"):
        commit(folder, plan)
    assert not folder.exists(MANIFEST)


def test_files_of_dead_workers_go_and_others_stay(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    plan = finished(folder)
    folder.write_bytes("shards/00001-0123abcd.h5", b"from a worker that died before its receipt")
    folder.write_bytes("shards/notes.txt", b"mine")
    commit(folder, plan)
    assert not folder.exists("shards/00001-0123abcd.h5")
    assert folder.exists("shards/notes.txt")
