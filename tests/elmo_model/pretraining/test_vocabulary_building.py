"""Vocabularies of corpora, and vocabularies compared with them."""

from pathlib import Path

import pytest

from elmo_model.pretraining.streams import EmptyCorpusError
from elmo_model.pretraining.vocabulary_building import VocabularyCheck, build_vocabulary, count_words, write_vocabulary
from elmo_model.vocabulary import MARKS, Vocabulary

SENTENCES = [["b", "a", "c", "b"], ["<S>", "b", "a"], [], ["d d", "é"]]


def test_words_stand_by_falling_count_then_alphabet_after_the_marks() -> None:
    vocabulary = build_vocabulary(count_words(SENTENCES))
    assert vocabulary.words == (*MARKS, "b", "a", "c", "é")


@pytest.mark.parametrize(("size", "min_count", "words"), [(5, 1, ("b", "a")), (None, 2, ("b", "a")), (4, 3, ("b",))])
def test_size_and_count_bound_it(size: int | None, min_count: int, words: tuple[str, ...]) -> None:
    assert build_vocabulary(count_words(SENTENCES), size=size, min_count=min_count).words == (*MARKS, *words)


def test_a_corpus_without_words_has_no_vocabulary() -> None:
    with pytest.raises(EmptyCorpusError, match="no words"):
        build_vocabulary(count_words([[], ["<S>"]]))


def test_a_written_vocabulary_reads_back(tmp_path: Path) -> None:
    vocabulary = build_vocabulary(count_words(SENTENCES))
    write_vocabulary(vocabulary, tmp_path / "vocab.txt")
    assert Vocabulary.read(tmp_path / "vocab.txt").words == vocabulary.words
    assert [path.name for path in tmp_path.iterdir()] == ["vocab.txt"]


def test_a_check_counts_and_finds_the_first_word_out_of_order() -> None:
    good = VocabularyCheck(Vocabulary([*MARKS, "b", "a", "c"]))
    bad = VocabularyCheck(Vocabulary([*MARKS, "a", "c", "b"]))
    for sentence in SENTENCES:
        good.add(sentence)
        bad.add(sentence)
    assert (good.sentences, good.tokens, good.unknown) == (4, 9, 2)
    assert good.misplaced() is None
    assert bad.misplaced() == (5, 6)
