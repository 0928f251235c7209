"""Tokenizers of raw prose; those of optional libraries are tested where the libraries are installed."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.tokenizers import TOKENIZER_NAMES, Tokenizer, load_tokenizer


def tokenizer(name: str) -> Tokenizer:
    for library in {"english": ("spacy", "syntok"), "chinese": ("rjieba",)}.get(name, ()):
        pytest.importorskip(library)
    return load_tokenizer(name)


def tokens(name: str, line: str) -> list[list[str]]:
    return [sentence.tokens for sentence in tokenizer(name)(line)]


def test_whitespace_takes_a_line_as_one_tokenised_sentence() -> None:
    assert tokens("whitespace", "  a\u00a0b\u3000c\td. E \n") == [["a", "b", "c", "d.", "E"]]


def test_english_follows_the_treebanks() -> None:
    assert tokens("english", "Mr. O'Neill doesn't know well-known Washington, D.C. He left (at 5%).") == [
        ["Mr.", "O'Neill", "does", "n't", "know", "well", "-", "known", "Washington", ",", "D.C."],
        ["He", "left", "(", "at", "5", "%", ")", "."],
    ] or tokens("english", "Dr. Smith can't go. She's gone!") == [
        ["Dr.", "Smith", "ca", "n't", "go", "."],
        ["She", "'s", "gone", "!"],
    ]


def test_english_keeps_quotations_together() -> None:
    assert tokens("english", '"Hello!" she said. "Who are you?"') == [
        ['"', "Hello", "!", '"', "she", "said", "."],
        ['"', "Who", "are", "you", "?", '"'],
    ]


def test_chinese_is_cut_at_full_stops_and_into_words() -> None:
    assert tokens("chinese", "他来到了北京大学。真的吗？“你好！”他说 1990 年") == [
        ["他", "来到", "了", "北京大学", "。"],
        ["真的", "吗", "？"],
        ["“", "你好", "！", "”"],
        ["他", "说", "1990", "年"],
    ]


@pytest.mark.parametrize("name", TOKENIZER_NAMES)
def test_a_blank_line_is_one_sentence_without_tokens(name: str) -> None:
    assert [tuple(sentence) for sentence in tokenizer(name)(" \u3000\n")] == [("", [])]


@pytest.mark.parametrize("name", TOKENIZER_NAMES)
@settings(deadline=None)  # the first call loads the library
@given(line=st.text(alphabet=st.characters(codec="utf-8"), max_size=60))
def test_nothing_but_white_space_is_lost(name: str, line: str) -> None:
    joined = "".join(token for sentence in tokenizer(name)(line) for token in sentence.tokens)
    assert "".join(joined.split()) == "".join(line.split())


@pytest.mark.parametrize("name", TOKENIZER_NAMES)
def test_the_version_names_the_libraries(name: str) -> None:
    version = tokenizer(name).version
    assert version.startswith(name)
    assert ("(" in version) is (name != "whitespace")


def test_an_unknown_name_is_refused_with_those_that_exist() -> None:
    with pytest.raises(ValueError, match="'french'; choose one of whitespace, english, chinese"):
        load_tokenizer("french")
