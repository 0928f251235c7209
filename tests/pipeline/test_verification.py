import dataclasses
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from pipeline.errors import PipelineError, StoreError
from pipeline.index import build_index, write_index
from pipeline.manifest import Manifest, ShardEntry
from pipeline.planning import Plan
from pipeline.receipts import Receipt, file_sha256, read_receipt, write_receipt
from pipeline.schema import INDEX, MANIFEST, PLAN, Column, ShardFormat, receipt_name, shard_name
from pipeline.storage import Folder
from pipeline.verification import verify
from support.stores import FORMATS, bilm_columns, features_of, make_sentences, with_spans, write_store

Array = NDArray[np.float32]
COLUMNS = (*bilm_columns(1, width=3), Column(name="mean", rows="sentence", width=2, layer=None, direction="both"))
SHARDS = [make_sentences([2, 0, 3]), make_sentences([2, 0, 3], source="b.txt"), make_sentences([1], source="c.txt")]


SPANNED = (*COLUMNS, Column(name="phrase", rows="span", width=2, layer=None, direction="both"))


@pytest.fixture(params=FORMATS)
def shard_format(request: pytest.FixtureRequest) -> ShardFormat:
    chosen: ShardFormat = request.param
    return chosen


@pytest.fixture
def folder(tmp_path: Path, shard_format: ShardFormat) -> Folder:
    folder = Folder(tmp_path / "store")
    write_store(folder, SHARDS, columns=COLUMNS, shard_format=shard_format, failed=["a.txt:3"])
    return folder


def files_of(folder: Folder) -> list[Path]:
    return sorted(path for path in Path(folder.url).rglob("*") if path.is_file())


def damage(folder: Folder) -> list[str]:
    """The problems that `verify` reports, or the message with which it refuses the store."""
    try:
        return verify(folder).problems
    except PipelineError as error:
        return [str(error)]


def test_a_store_with_rows_for_spans_is_checked_like_others(tmp_path: Path, shard_format: ShardFormat) -> None:
    sound, unsound = Folder(tmp_path / "sound"), Folder(tmp_path / "unsound")
    sentences = with_spans(make_sentences([2, 0, 3]))
    write_store(sound, [sentences], columns=SPANNED, shard_format=shard_format, failed=["a.txt:3"])
    assert verify(sound).ok
    longer = [sentences[0], sentences[1], dataclasses.replace(sentences[2], spans=((1, 4),))]
    write_store(unsound, [longer], columns=SPANNED, shard_format=shard_format)
    (problem,) = verify(unsound).problems
    assert problem.endswith("sentence 'a.txt:3' has 3 tokens, but the spans ((1, 4),)")


def test_a_sound_store_has_no_problems(folder: Folder) -> None:
    steps: list[tuple[int, int]] = []
    report = verify(folder, progress=lambda done, of: steps.append((done, of)))
    assert report.ok
    assert (report.shards, report.sentences, report.tokens, report.failed) == (3, 7, 11, 1)
    assert report.bytes == sum(path.stat().st_size for path in files_of(folder) if path.parent.name == "shards")
    assert steps == [(1, 3), (2, 3), (3, 3)]


def test_a_remote_store_is_verified_too(folder: Folder) -> None:
    remote = Folder(f"memory://verify-{Path(folder.url).parent.name}")
    for path in files_of(folder):
        remote.write_bytes(path.relative_to(folder.url).as_posix(), path.read_bytes())
    assert verify(remote).ok
    name = Manifest.read(folder).shards[1].file
    remote.write_bytes(name, remote.read_bytes(name)[:-1])
    (problem,) = verify(remote).problems
    assert problem.startswith(f"{name}: has ")


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_flipped_bit_in_any_file_is_found_and_the_file_named(folder: Folder, data: st.DataObject) -> None:
    path = data.draw(st.sampled_from([path for path in files_of(folder) if path.parent.name != "failures"]))
    whole = path.read_bytes()
    position = data.draw(st.integers(0, len(whole) - 1))
    flipped = bytearray(whole)
    flipped[position] ^= 1 << data.draw(st.integers(0, 7))
    path.write_bytes(flipped)
    try:
        assert any(path.name in problem for problem in damage(folder))
    finally:
        path.write_bytes(whole)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_cut_of_any_file_is_found_and_the_file_named(folder: Folder, data: st.DataObject) -> None:
    path = data.draw(st.sampled_from(files_of(folder)))
    whole = path.read_bytes()
    path.write_bytes(whole[: data.draw(st.integers(0, len(whole) - 1))])
    try:
        assert any(path.name in problem for problem in damage(folder))
    finally:
        path.write_bytes(whole)


def test_any_missing_file_is_named(folder: Folder) -> None:
    for path in files_of(folder):
        whole = path.read_bytes()
        path.unlink()
        problems = damage(folder)
        assert any(path.name in problem for problem in problems), (path.name, problems)
        path.write_bytes(whole)
    assert verify(folder).ok


def test_any_two_swapped_files_are_named(folder: Folder) -> None:
    for sub_folder in ("shards", "receipts"):
        first, second, *_ = sorted((Path(folder.url) / sub_folder).iterdir())
        contents = first.read_bytes(), second.read_bytes()
        first.write_bytes(contents[1])
        second.write_bytes(contents[0])
        problems = damage(folder)
        for path in (first, second):
            assert any(problem.startswith(f"{sub_folder}/{path.name}") for problem in problems)
        first.write_bytes(contents[0])
        second.write_bytes(contents[1])
    assert verify(folder).ok


def test_renamed_and_surplus_files_are_named(folder: Folder) -> None:
    shard = next(path for path in files_of(folder) if path.parent.name == "shards")
    renamed = shard.with_name(f"00009-{shard.name[6:]}")
    shard.rename(renamed)
    assert verify(folder).problems == [f"shards/{shard.name}: missing", f"shards/{renamed.name}: not part of the store"]
    renamed.rename(shard)
    for name in ("receipts/00007.json", "tasks/00000.parquet", "failures/00003.jsonl", "notes.txt"):
        folder.write_bytes(name, b"{}")
        assert f"{name}: not part of the store" in verify(folder).problems
        folder.remove(name)
    folder.remove_all("tasks")
    assert verify(folder).ok


def rebuild(folder: Folder, shard_format: ShardFormat, *, change: Callable[[Array, str], Array]) -> list[str]:
    """The problems of a store whose files fit each other, but whose vectors were changed before they were written."""
    write_store(
        folder,
        SHARDS,
        columns=COLUMNS,
        shard_format=shard_format,
        vectors=lambda sentence, column: change(features_of(sentence, column, "float32"), sentence.id),
    )
    return verify(folder).problems


def test_numbers_that_cannot_be_are_named_by_sentence(tmp_path: Path, shard_format: ShardFormat) -> None:
    def infinite(values: Array, sentence_id: str) -> Array:
        return values + np.float32("inf") if sentence_id == "b.txt:3" else values

    problems = rebuild(Folder(tmp_path / "infinite"), shard_format, change=infinite)
    assert len(problems) == len(COLUMNS)
    assert problems[2].startswith("shards/00001-")
    assert problems[2].endswith(": column backward_1 of sentence 'b.txt:3' is not finite")

    def zero(values: Array, sentence_id: str) -> Array:
        return values * np.float32(sentence_id != "b.txt:1")

    (problem,) = rebuild(Folder(tmp_path / "zero"), shard_format, change=zero)
    assert problem.endswith(": sentence 'b.txt:1' has nothing but zeros")


def test_zeros_are_answers_where_no_context_is_used(tmp_path: Path) -> None:
    columns = [Column(name="token", width=4, layer=0, direction="none")]
    write_store(
        Folder(tmp_path), SHARDS, columns=columns, vectors=lambda s, column: np.zeros((len(s.tokens), 4), np.float32)
    )
    assert verify(Folder(tmp_path)).ok


def replace_shard(folder: Folder, number: int, source: Path) -> None:
    """Puts another whole shard in a shard's place, with name, receipt and manifest made to fit it."""
    manifest, receipt = Manifest.read(folder), read_receipt(folder, number)
    folder.remove(receipt.file)
    digest, size = file_sha256(source), source.stat().st_size
    name = shard_name(number, digest, manifest.shard_format)
    folder.write_bytes(name, source.read_bytes())
    values: dict[str, Any] = {**vars(receipt), "file": name, "sha256": digest, "bytes": size}
    write_receipt(folder, Receipt(**values))
    entry = ShardEntry(**{key: values[key] for key in ShardEntry.__slots__})
    shards = (*manifest.shards[:number], entry, *manifest.shards[number + 1 :])
    fields = {key: getattr(manifest, key) for key in Manifest.__slots__}
    folder.write_bytes(MANIFEST, Manifest(**{**fields, "shards": shards}).to_bytes())


def test_a_shard_of_another_store_is_found_by_its_ids(tmp_path: Path, shard_format: ShardFormat) -> None:
    one, other = Folder(tmp_path / "one"), Folder(tmp_path / "other")
    write_store(one, SHARDS, columns=COLUMNS, shard_format=shard_format)
    write_store(other, SHARDS[::-1], columns=COLUMNS, shard_format=shard_format)
    stolen = next((tmp_path / "other" / "shards").glob("00001-*"))
    replace_shard(one, 1, stolen)
    assert verify(one).ok
    write_store(other, [make_sentences([2, 0, 3], source="z.txt")], columns=COLUMNS, shard_format=shard_format)
    replace_shard(
        one, 1, next((tmp_path / "other" / "shards").glob(f"{Path(Manifest.read(other).shards[0].file).name}"))
    )
    assert verify(one).problems == [f"{INDEX}: does not list the ids of the shards"]


def test_a_shard_of_other_counts_is_found(tmp_path: Path, shard_format: ShardFormat) -> None:
    one, other = Folder(tmp_path / "one"), Folder(tmp_path / "other")
    write_store(one, SHARDS, columns=COLUMNS, shard_format=shard_format)
    write_store(other, [make_sentences([1, 1])], columns=COLUMNS, shard_format=shard_format, failed=["a.txt:2"])
    replace_shard(one, 0, next((tmp_path / "other" / "shards").iterdir()))
    problems = [problem.partition(": ")[2] for problem in verify(one).problems]
    assert "holds 2 sentences, the manifest says 3" in problems
    assert "holds 2 tokens, the manifest says 5" in problems
    assert "holds 1 failed, the manifest says 0" in problems


def test_an_index_of_other_ids_is_found(folder: Folder) -> None:
    ids = [["x", "y", "z"], ["b.txt:1", "b.txt:2", "b.txt:3"], ["c.txt:1"]]
    path = Path(folder.url) / INDEX
    write_index(path, build_index(ids, sentences=7))
    manifest = Manifest.read(folder)
    fields = {key: getattr(manifest, key) for key in Manifest.__slots__}
    folder.write_bytes(MANIFEST, Manifest(**{**fields, "index_sha256": file_sha256(path)}).to_bytes())
    assert verify(folder).problems == [f"{INDEX}: does not list the ids of the shards"]


def test_another_plan_and_another_receipt_are_found(folder: Folder) -> None:
    plan, receipt = Plan.read(folder), read_receipt(folder, 0)
    folder.write_bytes(PLAN, Plan(settings={**plan.settings, "x": 1}, shards=plan.shards, counts=plan.counts).to_json())
    write_receipt(folder, Receipt(**{**vars(receipt), "failed": 0, "tokens": 4}))
    assert verify(folder).problems == [
        f"{receipt_name(0)}: tokens, failed differ from the manifest",
        f"{PLAN}: its settings are not those of the manifest",
    ]
    write_receipt(folder, receipt)
    folder.write_bytes(PLAN, Plan(settings=plan.settings, shards=plan.shards[:2], counts=plan.counts).to_json())
    assert verify(folder).problems == [f"{PLAN}: its shards or counts are not those of the manifest"]


def test_a_list_of_failures_that_does_not_fit_is_found(folder: Folder) -> None:
    for wrong in (b'{"id": "a.txt:1"}\n', b"", b"x\n", b'{"id": "a.txt:3"}'):
        folder.write_bytes("failures/00000.jsonl", wrong)
        (problem,) = verify(folder).problems
        assert problem.startswith("failures/00000.jsonl: ")


def test_what_is_no_store_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no feature store here"):
        verify(Folder(tmp_path))


def test_memory_does_not_grow_with_the_store(tmp_path: Path, shard_format: ShardFormat) -> None:
    shards = [make_sentences([200] * 60, source=f"{number}.txt") for number in range(5)]
    ones = np.ones((200, 256), np.float32)
    write_store(
        Folder(tmp_path),
        shards,
        columns=bilm_columns(1, width=256),
        shard_format=shard_format,
        vectors=lambda sentence, column: ones,
    )
    script = (
        "import sys, psutil\n"
        "from pipeline.shards import hdf5, parquet, placement\n"
        "from pipeline.storage import Folder\n"
        "from pipeline.verification import verify\n"
        "placement._RESIDENT_BYTES = 2**24\n"
        "before, most = psutil.Process().memory_info().rss, []\n"
        "report = verify(Folder(sys.argv[1]), progress=lambda *_: most.append(psutil.Process().memory_info().rss))\n"
        "print(report.ok, max(most) - before)\n"
    )
    run = subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=True, capture_output=True, text=True)
    ok, grown = run.stdout.split()
    assert ok == "True"
    assert sum(file.stat().st_size for file in (tmp_path / "shards").iterdir()) > 170 * 2**20
    assert int(grown) < 100 * 2**20
