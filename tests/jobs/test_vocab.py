"""`elmo vocab`."""

import gzip
from pathlib import Path

import pytest

from support.cli import elmo


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    folder = tmp_path / "corpus"
    folder.mkdir()
    (folder / "a.txt").write_text("the cat saw the dog\n\nthe end\n")
    with gzip.open(folder / "b.txt.gz", "wt") as file:
        file.write("a cat\n")
    return folder


def test_words_of_all_files_stand_by_falling_frequency(
    capsys: pytest.CaptureFixture[str], corpus: Path, tmp_path: Path
) -> None:
    output = tmp_path / "new" / "vocab.txt"
    result = elmo(capsys, "vocab", corpus, output)
    assert result.code == 0, result.err
    assert output.read_text().split() == ["<S>", "</S>", "<UNK>", "the", "cat", "a", "dog", "end", "saw"]
    assert "9 words of 6; 0.00% of 9 tokens are unknown" in result.out


def test_bounds_on_size_and_count(capsys: pytest.CaptureFixture[str], corpus: Path, tmp_path: Path) -> None:
    output = tmp_path / "vocab.txt"
    for bounds, words in ((("--size", "4"), ["the"]), (("--min-count", "2"), ["the", "cat"])):
        assert elmo(capsys, "vocab", corpus, output, *bounds).code == 0
        assert output.read_text().split()[3:] == words


def test_no_words_are_one_line(capsys: pytest.CaptureFixture[str], corpus: Path, tmp_path: Path) -> None:
    result = elmo(capsys, "vocab", corpus, tmp_path / "vocab.txt", "--min-count", "9")
    assert result.code == 2
    assert "no words for a vocabulary" in result.err
    assert not (tmp_path / "vocab.txt").exists()
