"""Which files are read, under which names and in which order."""

import io
import os
import sys
import threading
from pathlib import Path

import pytest

from pipeline.config import CorpusConfig
from pipeline.errors import CorpusError
from pipeline.inputs import list_inputs
from pipeline.storage import Folder


def write(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"{name}\n")


def names(*inputs: str | Path, glob: str = "**/*", output: Folder | None = None) -> list[str]:
    return [file.name for file in list_inputs([str(given) for given in inputs], CorpusConfig(glob=glob), output=output)]


def test_a_folder_is_read_recursively_sorted_and_without_hidden_files(tmp_path: Path) -> None:
    write(tmp_path, "b.txt", "a/z.txt", "a/b/c.txt", "Z.txt", ".hidden", ".git/config", "a/.x", "é.txt")
    assert names(tmp_path) == ["Z.txt", "a/b/c.txt", "a/z.txt", "b.txt", "é.txt"]


def test_a_single_file_gives_its_name(tmp_path: Path) -> None:
    write(tmp_path, "deep/down/b.txt")
    assert names(tmp_path / "deep/down/b.txt") == ["b.txt"]


def test_several_inputs_are_named_within_the_folder_that_holds_all(tmp_path: Path) -> None:
    write(tmp_path, "one/a.txt", "two/a.txt", "two/x/b.txt")
    assert names(tmp_path / "two", tmp_path / "one/a.txt") == ["two/a.txt", "two/x/b.txt", "one/a.txt"]
    assert names(tmp_path / "two/a.txt", tmp_path / "two/x/b.txt") == ["a.txt", "x/b.txt"]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("**/*", ["a.txt", "b.tsv", "x/a.txt", "x/y/a.txt", "x/y/c.txt"]),
        ("*.txt", ["a.txt", "x/a.txt", "x/y/a.txt", "x/y/c.txt"]),
        ("**/*.tsv", ["b.tsv"]),
        ("x/*", ["x/a.txt"]),
        ("x/**", ["x/a.txt", "x/y/a.txt", "x/y/c.txt"]),
        ("x/**/a.txt", ["x/a.txt", "x/y/a.txt"]),
        ("./[ab].*", ["a.txt", "b.tsv", "x/a.txt", "x/y/a.txt"]),
        ("**/y/?.txt", ["x/y/a.txt", "x/y/c.txt"]),
    ],
)
def test_a_glob_chooses_the_files_of_a_folder(tmp_path: Path, pattern: str, expected: list[str]) -> None:
    write(tmp_path, "a.txt", "b.tsv", "x/a.txt", "x/y/a.txt", "x/y/c.txt")
    assert names(tmp_path, glob=pattern) == expected


def test_a_pattern_as_input_selects_the_same_files_with_and_without_a_leading_dot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "b.txt", "a.txt", "c.csv", "sub/d.txt")
    monkeypatch.chdir(tmp_path)
    assert names("*.txt") == names("./*.txt") == ["a.txt", "b.txt"]
    assert names("**/*.txt") == ["a.txt", "b.txt", "sub/d.txt"]
    assert names(".") == ["a.txt", "b.txt", "c.csv", "sub/d.txt"]


def test_a_name_with_pattern_characters_that_exists_is_that_file(tmp_path: Path) -> None:
    write(tmp_path, "a[1].txt", "a1.txt")
    assert names(tmp_path / "a[1].txt") == ["a[1].txt"]


def test_loops_of_links_end_and_linked_folders_are_read_once(tmp_path: Path) -> None:
    write(tmp_path, "corpus/a/x.txt", "elsewhere/y.txt")
    (tmp_path / "corpus/a/up").symlink_to(tmp_path / "corpus")
    (tmp_path / "corpus/b").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere/back").symlink_to(tmp_path / "corpus/a")
    (tmp_path / "corpus/c.txt").symlink_to(tmp_path / "corpus/a/x.txt")
    assert names(tmp_path / "corpus") == ["a/x.txt", "b/y.txt", "c.txt"]


def test_a_dangling_link_is_not_left_out_in_silence(tmp_path: Path) -> None:
    (tmp_path / "gone.txt").symlink_to(tmp_path / "nowhere")
    assert names(tmp_path) == ["gone.txt"]


def test_pipes_among_the_files_of_a_folder_are_passed_over(tmp_path: Path) -> None:
    write(tmp_path, "a.txt")
    os.mkfifo(tmp_path / "b.txt")
    assert names(tmp_path) == ["a.txt"]


def test_the_output_is_never_input(tmp_path: Path) -> None:
    write(tmp_path, "a.txt", "features/tasks/00000.parquet", "features/plan.json")
    assert names(tmp_path, output=Folder(tmp_path / "features")) == ["a.txt"]
    assert names(tmp_path, output=Folder(f"file://{tmp_path}/features/")) == ["a.txt"]
    assert names(tmp_path, output=Folder("memory://features")) != ["a.txt"]


def test_standard_input_can_be_read_more_than_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a b\nc\n")))
    [file] = list_inputs(["-"], CorpusConfig())
    assert file.name == "stdin"
    for _ in range(2):
        with file.open() as opened:
            assert opened.read() == b"a b\nc\n"


def test_a_named_pipe_is_read_like_a_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.txt")
    writer = threading.Thread(target=(tmp_path / "pipe.txt").write_text, args=("from a pipe\n",))
    writer.start()
    [file] = list_inputs([str(tmp_path / "pipe.txt")], CorpusConfig())
    writer.join()
    with file.open() as opened:
        assert opened.read() == b"from a pipe\n"
    assert file.name == "pipe.txt"


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ([], "no input given"),
        (["nowhere.txt"], "nowhere.txt: there is no such file or folder"),
        (["*.csv"], r"\*.csv: nothing matches this pattern"),
        (["empty"], r"empty: no file in it matches '\*\*/\*'"),
        ([".", "empty"], "empty: no file in it matches"),
        (["a.txt", "./a.txt"], "a.txt: given twice"),
        ([".", "a.txt"], "a.txt: given twice"),
    ],
)
def test_what_cannot_be_input_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: list[str], problem: str
) -> None:
    write(tmp_path, "a.txt")
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CorpusError, match=problem):
        list_inputs(given, CorpusConfig())


def test_a_glob_without_a_match_is_named(tmp_path: Path) -> None:
    write(tmp_path, "a.txt")
    with pytest.raises(CorpusError, match=r"no file in it matches '\*\.tsv'"):
        names(tmp_path, glob="*.tsv")


def test_a_file_name_that_is_not_unicode_is_refused(tmp_path: Path) -> None:
    Path(os.fsdecode(bytes(tmp_path) + b"/caf\xe9.txt")).write_text("a\n")
    with pytest.raises(CorpusError, match=r"caf.*not valid UTF-8; rename it"):
        names(tmp_path)
