"""The sample corpus reads whole, and holds the lines it is there for."""

import unicodedata
from importlib import resources
from pathlib import Path

import pytest

from pipeline.config import CorpusConfig, DumpConfig
from pipeline.inputs import list_inputs
from pipeline.records import Sentence
from pipeline.scanning import CorpusScan

LONGEST_WORD = 48  # bytes that the published character models take of a word


@pytest.fixture(scope="module")
def corpus() -> Path:
    return Path(str(resources.files("jobs") / "sample/corpus"))


@pytest.fixture(scope="module")
def scan(corpus: Path) -> CorpusScan:
    config = DumpConfig(corpus=CorpusConfig())
    return CorpusScan(list_inputs([str(corpus)], config.corpus), config)


@pytest.fixture(scope="module")
def sentences(scan: CorpusScan) -> dict[str, Sentence]:
    return {sentence.id: sentence for sentence in scan}


def test_every_file_is_read_with_ids_that_differ(sentences: dict[str, Sentence], corpus: Path) -> None:
    assert len(sentences) == 270
    read = {sentence.source for sentence in sentences.values()}
    assert read == {path.relative_to(corpus).as_posix() for path in corpus.glob("*/*")}


def test_ambiguous_words_stand_in_every_sense(sentences: dict[str, Sentence]) -> None:
    senses = [identifier.split("-")[:2] for identifier in sentences if identifier.count("-") == 2]
    assert len(senses) == 113
    for word, sense in {tuple(pair) for pair in senses}:
        assert senses.count([word, sense]) >= 3
        assert sum(other == word for other, _ in {tuple(pair) for pair in senses}) >= 2
    for identifier, sentence in sentences.items():
        if identifier.count("-") == 2:
            words = {token.lower() for token in sentence.tokens}
            assert identifier.split("-")[0] in words, identifier


def test_the_awkward_lines_are_there(scan: CorpusScan, sentences: dict[str, Sentence]) -> None:
    tokens = [token for sentence in sentences.values() for token in sentence.tokens]
    characters = set("".join(sentence.text or "" for sentence in sentences.values()))
    assert scan.counts["blank"] == 4
    assert max(len(token.encode()) for token in tokens) > 10 * LONGEST_WORD
    assert any(len(token) > LONGEST_WORD and token.isalpha() and len(set(token)) > 10 for token in tokens)
    assert {"", "<S>", "</S>"} <= {*tokens}
    assert "New York" in tokens
    assert {"\u00a0", "\u3000", "\u2028", "\u0085", "\r", "\t", "\u200b", "\ufeff", "😀", "𠀀"} <= characters
    assert any(unicodedata.combining(character) for character in characters)
    assert {"HEBREW", "ARABIC", "DEVANAGARI", "THAI", "CYRILLIC", "CJK"} <= {
        unicodedata.name(character, "none").split()[0] for character in characters
    }
