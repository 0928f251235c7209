"""Task files give back the sentences that went in."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.errors import CorpusError, StorageError
from pipeline.records import Sentence
from pipeline.schema import TASKS, task_name
from pipeline.storage import Folder
from pipeline.tasks import read_task, write_task

STRINGS = st.text(st.characters(exclude_categories=["Cs"]))

SENTENCES = st.builds(
    Sentence,
    id=STRINGS.filter(bool),
    tokens=st.lists(STRINGS).map(tuple),
    text=st.none() | STRINGS,
    source=STRINGS,
    line=st.integers(1, 2**40),
    spans=st.lists(st.tuples(st.integers(0, 2**40), st.integers(0, 2**40))).map(tuple),
)


def sentence(number: int, tokens: tuple[str, ...]) -> Sentence:
    return Sentence(id=f"a:{number}", tokens=tokens, text=" ".join(tokens), source="a", line=number)


@settings(deadline=None)
@given(sentences=st.lists(SENTENCES))
def test_any_sentences_come_back(tmp_path_factory: pytest.TempPathFactory, sentences: list[Sentence]) -> None:
    folder = Folder(tmp_path_factory.mktemp("out"))
    write_task(folder, 3, sentences)
    assert read_task(folder, 3) == sentences
    assert folder.list(TASKS) == ["tasks/00003.parquet"]


def test_many_and_long_sentences_come_back_in_order(tmp_path: Path) -> None:
    short = [sentence(number, ("w",) * (number % 3)) for number in range(60_000)]
    sentences = [*short, sentence(60_000, ("long",) * 600_000), sentence(60_001, ("x" * 10_000_000,))]
    write_task(Folder(tmp_path), 0, iter(sentences))
    assert read_task(Folder(tmp_path), 0) == sentences


def test_the_same_sentences_give_the_same_bytes(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    for shard in (0, 1):
        write_task(folder, shard, [sentence(number, ("a", "b")) for number in range(100)])
    assert folder.read_bytes(task_name(0)) == folder.read_bytes(task_name(1))


def test_an_error_in_the_corpus_leaves_no_task_file(tmp_path: Path) -> None:
    def broken() -> Iterator[Sentence]:
        yield sentence(1, ("a",))
        raise CorpusError("a.txt:7: broken")

    with pytest.raises(CorpusError, match="broken"):
        write_task(Folder(tmp_path), 0, broken())
    assert list((tmp_path / TASKS).iterdir()) == []


def test_a_missing_or_damaged_task_file_is_named(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    with pytest.raises(StorageError, match=r"cannot read .*tasks/00000\.parquet"):
        read_task(folder, 0)
    write_task(folder, 0, [sentence(1, ("a",) * 1000)])
    whole = folder.read_bytes(task_name(0))
    flipped = bytearray(whole)
    flipped[whole.index(b"a:1")] ^= 1
    for damaged in (whole[:-10], b"", b"not Parquet at all", whole[:4] + bytes(200) + whole[204:], bytes(flipped)):
        folder.write_bytes(task_name(0), damaged)
        with pytest.raises(StorageError, match=r"tasks/00000\.parquet is no task file .*remove it and run") as caught:
            read_task(folder, 0)
        assert "\n" not in str(caught.value)


def test_a_full_disk_is_told(tmp_path: Path) -> None:
    script = """if True:
        import resource, sys
        from pipeline.errors import StorageError
        from pipeline.records import Sentence
        from pipeline.storage import Folder
        from pipeline.tasks import write_task
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
        sentences = (Sentence(id=f"{n}", tokens=(hex(n**9),), text=None, source="a", line=n) for n in range(500_000))
        try:
            write_task(Folder(sys.argv[1]), 0, sentences)
        except StorageError as error:
            print(error)
    """
    done = subprocess.run([sys.executable, "-c", script, tmp_path], capture_output=True, text=True, check=True)
    assert "cannot write" in done.stdout
    assert "tasks/00000.parquet: File too large" in done.stdout
    assert list((tmp_path / TASKS).iterdir()) == []


def test_reading_a_task_does_not_break_the_end_of_the_process(tmp_path: Path) -> None:
    write_task(Folder(tmp_path), 0, [sentence(number, ("a",) * 50) for number in range(300)])
    script = """if True:
        import sys
        from pipeline.storage import Folder
        from pipeline.tasks import read_task
        read_task(Folder(sys.argv[1]), 0)
    """
    for _ in range(5):
        subprocess.run([sys.executable, "-c", script, tmp_path], check=True)
