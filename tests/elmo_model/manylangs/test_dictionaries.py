from pathlib import Path

import pytest

from elmo_model.errors import VocabularyError
from elmo_model.manylangs.dictionaries import Dictionary

MARKS = "<oov>\t0\n<pad>\t1\n"


def read(tmp_path: Path, content: str | bytes) -> Dictionary:
    path = tmp_path / "word.dic"
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
    return Dictionary.read_words(path)


def test_ids_are_those_of_the_file_and_unknown_words_have_that_of_oov(tmp_path: Path) -> None:
    words = read(tmp_path, "the\t1\n<oov>\t3\n<pad>\t0\nThe\t2\n")
    assert [words.id_of(word) for word in ("the", "The", "THE", "<oov>")] == [1, 2, 3, 3]
    assert "THE" not in words and "the" in words and len(words) == 4


def test_case_accents_and_inner_blanks_count(tmp_path: Path) -> None:
    words = read(tmp_path, MARKS + "h\u1ecdc sinh\t2\ncaf\u00e9\t3\ncafe\u0301\t4\n")
    assert [words.id_of(word) for word in ("h\u1ecdc sinh", "caf\u00e9", "cafe\u0301")] == [2, 3, 4]


def test_white_space_entries_become_the_ideographic_space_and_the_last_one_wins(tmp_path: Path) -> None:
    words = read(tmp_path, MARKS + "\u00a0\t0\n \t1\n\u3000\t2\n")
    assert words.id_of("\u3000") == 2 and len(words) == 3
    assert words.id_of(" ") == words.unknown_id


def test_windows_line_ends_and_a_missing_last_line_end_are_read(tmp_path: Path) -> None:
    words = read(tmp_path, "<oov>\t0\r\n<pad>\t1\r\nfox\t2")
    assert words.id_of("fox") == 2


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (MARKS + "fox\ttwo\n", "line 3 is 'fox\\ttwo'"),
        (MARKS + "fox\n", "line 3"),
        (MARKS + "\nfox\t2\n", "line 3"),
        (MARKS + "a\tb\t2\n", "line 3"),
        (MARKS + "fox\t-2\n", "line 3"),
        (MARKS.encode() + b"f\xff\t2\n", "line 3: not UTF-8"),
        (MARKS + "fox\t3\n", "entry 'fox' has id 3; with 3 entries, ids must be 0 to 2"),
        ("<pad>\t0\n", "lacks the entries <oov>"),
        ("", "lacks the entries <oov>, <pad>"),
    ],
)
def test_what_cannot_be_used_is_refused_with_the_line(tmp_path: Path, content: str | bytes, said: str) -> None:
    with pytest.raises(VocabularyError) as caught:
        read(tmp_path, content)
    assert str(caught.value).startswith(str(tmp_path / "word.dic")) and said in str(caught.value)


def test_characters_need_all_six_marks(tmp_path: Path) -> None:
    path = tmp_path / "char.dic"
    path.write_text(MARKS)
    with pytest.raises(VocabularyError, match="<bos>, <eos>, <bow>, <eow>"):
        Dictionary.read_characters(path)


def test_an_absent_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(VocabularyError, match=r"word\.dic: can't be read"):
        Dictionary.read_words(tmp_path / "word.dic")
