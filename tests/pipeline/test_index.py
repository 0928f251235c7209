from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline import index as index_module
from pipeline.errors import DamageError
from pipeline.index import Index, build_index, write_index
from pipeline.schema import INDEX, INDEX_DTYPE, id_hash
from pipeline.storage import Folder


def written(folder: Path, ids: list[list[str]]) -> Index:
    sentences = sum(map(len, ids))
    folder.mkdir(exist_ok=True)
    write_index(folder / INDEX, build_index(ids, sentences=sentences))
    return Index(Folder(folder), sentences=sentences)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=50)
@given(ids=st.lists(st.text(max_size=4), unique=True, max_size=60), cuts=st.lists(st.integers(0, 60), max_size=4))
def test_every_id_is_found_where_it_stands(tmp_path: Path, ids: list[str], cuts: list[int]) -> None:
    bounds = [0, *sorted(min(cut, len(ids)) for cut in cuts), len(ids)]
    shards = [ids[a:b] for a, b in pairwise(bounds)]
    index = written(tmp_path / "store", shards)
    for number, shard in enumerate(shards):
        for row, sentence_id in enumerate(shard):
            assert index.find(sentence_id) == [(number, row)]
    assert index.find("not there") == []


def test_a_remote_index_is_the_same(tmp_path: Path) -> None:
    written(tmp_path, [["a", "b"], ["c"]])
    remote = Folder("memory://index-test")
    remote.write_bytes(INDEX, (tmp_path / INDEX).read_bytes())
    assert Index(remote, sentences=3).find("c") == [(1, 0)]


def test_ids_of_one_hash_are_all_given_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_module, "id_hash", len)
    index = written(tmp_path, [["aa", "b"], ["cc", "ddd", "ee"]])
    assert index.find("zz") == [(0, 0), (1, 0), (1, 2)]
    assert index.find("z") == [(0, 1)]
    assert index.find("zzzz") == []


def test_the_file_is_a_plain_array_sorted_by_hash(tmp_path: Path) -> None:
    written(tmp_path, [["x", "y"], ["z"]])
    array = np.load(tmp_path / INDEX)
    assert array.dtype == INDEX_DTYPE
    assert sorted((id_hash(name), *place) for name, place in {"x": (0, 0), "y": (0, 1), "z": (1, 0)}.items()) == [
        tuple(row) for row in array.tolist()
    ]


@pytest.mark.parametrize("count", [1, 4])
def test_a_wrong_number_of_ids_is_refused(count: int) -> None:
    with pytest.raises(ValueError, match=r"\d ids were given for an index of"):
        build_index([["x", "y"], ["z"]], sentences=count)


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    written(tmp_path, [["x", "y"], ["z"]])
    data = (tmp_path / INDEX).read_bytes()
    for wrong in (data[:-1], data[:50], b"", b"garbage" * 40, data.replace(b"<u8", b"|O8")):
        (tmp_path / INDEX).write_bytes(wrong)
        with pytest.raises(DamageError, match=r"index\.npy is damaged"):
            Index(Folder(tmp_path), sentences=3)
    (tmp_path / INDEX).write_bytes(data)
    with pytest.raises(DamageError, match=r"index\.npy is damaged: it is not an index of 4 sentences"):
        Index(Folder(tmp_path), sentences=4)
    (tmp_path / INDEX).unlink()
    with pytest.raises(DamageError, match=r"index\.npy is missing"):
        Index(Folder(tmp_path), sentences=3)
