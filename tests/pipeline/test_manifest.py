import json
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.errors import DamageError, StoreError
from pipeline.manifest import Manifest
from pipeline.schema import FORMAT_VERSION, MANIFEST, PLAN
from pipeline.sealed import seal, unseal
from pipeline.storage import Folder
from support.stores import bilm_columns, make_sentences, write_store


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    folder = Folder(tmp_path)
    write_store(
        folder,
        [make_sentences([2, 0]), make_sentences([1, 3], source="b.txt")],
        columns=bilm_columns(1, width=2),
        failed=["b.txt:1"],
    )
    return folder


def test_it_says_what_the_store_holds(folder: Folder) -> None:
    manifest = Manifest.read(folder)
    assert (manifest.sentences, manifest.tokens, manifest.failed) == (4, 6, 1)
    assert [(shard.sentences, shard.tokens, shard.failed) for shard in manifest.shards] == [(2, 2, 0), (2, 4, 1)]
    assert manifest.columns == bilm_columns(1, width=2)
    assert manifest.counts == {"blank_lines": 0, "truncated_tokens": 2}
    assert Manifest.from_bytes(manifest.to_bytes(), "m") == manifest


def test_it_holds_no_time_host_or_device(folder: Folder) -> None:
    text = folder.read_bytes(MANIFEST).decode()
    for private in ("here", "cpu", "2024", "seconds", "pid"):
        assert private not in text


def test_a_newer_format_is_refused_and_unknown_keys_are_ignored(folder: Folder) -> None:
    value = unseal(folder.read_bytes(MANIFEST), "")
    folder.write_bytes(MANIFEST, json.dumps({**value, "format_version": FORMAT_VERSION + 1}).encode())
    with pytest.raises(StoreError, match=r"format version 2; this installation reads up to 1: update"):
        Manifest.read(folder)
    value["columns"][0]["unit"] = "none"
    value["shards"][0]["colour"] = "red"
    folder.write_bytes(MANIFEST, seal({**value, "licence": "CC0"}))
    assert Manifest.read(folder).sentences == 4


def test_absent_and_unfinished_stores_are_told_apart(folder: Folder, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no feature store here"):
        Manifest.read(Folder(tmp_path / "nothing"))
    folder.remove(MANIFEST)
    assert folder.exists(PLAN)
    with pytest.raises(StoreError, match=r"not finished, it has no manifest.json; run the same dump again"):
        Manifest.read(folder)


def test_contradictions_are_damage_even_under_a_good_seal(folder: Folder) -> None:
    value = unseal(folder.read_bytes(MANIFEST), "")
    first = value["shards"][0]
    for wrong in (
        {"sentences": 5},
        {"tokens": 7},
        {"dtype": "float64"},
        {"shard_format": "zip"},
        {"columns": [{"name": "token"}]},
        {"shards": [{**first, "file": "../../etc/passwd"}, value["shards"][1]]},
        {"shards": value["shards"][::-1]},
        {"shards": 3},
    ):
        with pytest.raises(DamageError, match=r"m\.json is damaged"):
            Manifest.from_bytes(seal({**value, **wrong}), "m.json")
    with pytest.raises(ValueError, match="do not add up"):
        replace(Manifest.read(folder), failed=0)
