"""The vocabulary of a corpus: words by falling frequency, as the sampled softmax expects them."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path

from elmo_model.pretraining.streams import EmptyCorpusError
from elmo_model.vocabulary import MARKS, Vocabulary


def count_words(sentences: Iterable[Sequence[str]]) -> Counter[str]:
    """How often each word occurs."""
    counts: Counter[str] = Counter()
    for sentence in sentences:
        counts.update(sentence)
    return counts


def build_vocabulary(counts: Counter[str], *, size: int | None = None, min_count: int = 1) -> Vocabulary:
    """The marks, then words by falling count, words of equal count in alphabetical order.

    Words with white space, which a file of one word a line can't hold, are left out, as are the marks themselves.

    Args:
        counts: See `count_words`.
        size: Most words, the marks included; None for all.
        min_count: Least occurrences of a word.

    Raises:
        EmptyCorpusError: No word is left.
    """
    ranked = sorted(
        (word for word, count in counts.items() if count >= min_count and word not in MARKS and word.split() == [word]),
        key=lambda word: (-counts[word], word),
    )
    words = ranked if size is None else ranked[: max(0, size - len(MARKS))]
    if not words:
        raise EmptyCorpusError(
            "no words for a vocabulary: the corpus is empty, or the limits on size and count too strict"
        )
    return Vocabulary([*MARKS, *words])


def write_vocabulary(vocabulary: Vocabulary, path: str | Path) -> None:
    """Writes one word a line; the file appears whole."""
    path = Path(path)
    unfinished = path.with_name(f".{path.name}.unfinished")
    unfinished.write_bytes("".join(f"{word}\n" for word in vocabulary.words).encode("utf-8"))
    os.replace(unfinished, path)


class VocabularyCheck:
    """Compares a vocabulary with a corpus while that is read; holds one number a word of the vocabulary.

    Attributes:
        sentences: Sentences of the corpus.
        tokens: Words of the corpus.
        unknown: Those the vocabulary lacks.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.sentences = 0
        self.tokens = 0
        self.unknown = 0
        self._vocabulary = vocabulary
        self._counts = [0] * len(vocabulary)

    def add(self, sentence: Sequence[str]) -> None:
        """Counts a sentence of the corpus."""
        self.sentences += 1
        self.tokens += len(sentence)
        for word in sentence:
            self._counts[self._vocabulary.id_of(word)] += 1
            self.unknown += word not in self._vocabulary

    def misplaced(self) -> tuple[int, int] | None:
        """Lines of two neighbours, the first rarer than the second; None if words stand by falling frequency."""
        marks = {self._vocabulary.id_of(mark) for mark in MARKS}
        ranked = [number for number in range(len(self._counts)) if number not in marks]
        for before, after in pairwise(ranked):
            if self._counts[before] < self._counts[after]:
                return before + 1, after + 1
        return None
