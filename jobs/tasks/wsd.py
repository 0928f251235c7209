"""Word senses by the nearest mean vector: no training but averaging (Peters et al. 2018, 5.3; Melamud et al. 2016).

Each sense has the mean vector of its occurrences in an annotated corpus. At test the nearest sense of the same lemma
and part of speech, by cosine, is chosen; a lemma that the corpus lacks gets its first sense of WordNet.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from jobs.tasks.formats import SenseSentence, SenseTarget, sense_lemma
from jobs.tasks.sources import VectorSource
from pipeline.errors import CorpusError

Lemma = tuple[str, str]


@dataclass(frozen=True, kw_only=True)
class SenseScore:
    """Results on a test set.

    Attributes:
        right: Words whose chosen sense is one of the right ones.
        total: All annotated words. Since every word gets a sense where a first sense is known, `right / total` is F1.
        fell_back: Words that took the first sense, their lemma being absent from the corpus.
    """

    right: int
    total: int
    fell_back: int

    @property
    def f1(self) -> float:
        """Between 0 and 1."""
        return self.right / self.total if self.total else 0.0

    def __add__(self, other: "SenseScore") -> "SenseScore":
        return SenseScore(
            right=self.right + other.right, total=self.total + other.total, fell_back=self.fell_back + other.fell_back
        )


class SenseVectors:
    """The mean vector of every sense of a corpus, normalised to length 1, grouped by lemma and part of speech."""

    def __init__(self, sentences: Sequence[SenseSentence], source: VectorSource, *, block: int = 1000) -> None:
        """Averages over the corpus, `block` sentences in memory at a time."""
        sums: dict[str, NDArray[np.float64]] = {}
        counts: dict[str, int] = defaultdict(int)
        for start in range(0, len(sentences), block):
            part = sentences[start : start + block]
            for sentence, vectors in zip(part, source.of(part), strict=True):
                for target in sentence.targets:
                    vector = target_vector(vectors, target)
                    for sense in target.senses:
                        sums[sense] = sums.get(sense, 0.0) + vector
                        counts[sense] += 1
        senses: dict[Lemma, list[str]] = defaultdict(list)
        for sense in sorted(sums):
            senses[sense_lemma(sense)].append(sense)
        self._senses = dict(senses)
        self._vectors = {
            lemma: np.stack([_unit(sums[sense] / counts[sense]) for sense in names]) for lemma, names in senses.items()
        }

    def nearest(self, lemma: Lemma, vector: NDArray[np.floating]) -> str | None:
        """The nearest sense of a lemma and part of speech; None for one that the corpus lacks."""
        if lemma not in self._senses:
            return None
        return self._senses[lemma][int(np.argmax(self._vectors[lemma] @ _unit(vector)))]


def read_first_senses(path: Path) -> dict[Lemma, str]:
    """The first WordNet sense of each lemma and part of speech, from lines `LEMMA<tab>POS<tab>SENSE[<tab>...]`.

    Raises:
        CorpusError: A line has fewer columns; names file and line.
    """
    senses = {}
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise CorpusError(f"{path}: cannot be read: {error}") from None
    for number, line in enumerate(lines, 1):
        if line.strip():
            cells = line.split("\t")
            if len(cells) < 3:
                raise CorpusError(f"{path}:{number}: expected lemma, part of speech and sense, found {line!r:.80}")
            senses[cells[0], cells[1]] = cells[2]
    return senses


def score_nearest(
    senses: SenseVectors, sentences: Sequence[SenseSentence], source: VectorSource, *, first: Mapping[Lemma, str]
) -> SenseScore:
    """The score of the nearest sense on a test set, first senses standing in for lemmas the corpus lacks."""
    right = total = fell_back = 0
    for sentence, vectors in zip(sentences, source.of(sentences), strict=True):
        for target in sentence.targets:
            lemma = (target.lemma, target.pos)
            chosen = senses.nearest(lemma, target_vector(vectors, target))
            fell_back += chosen is None
            right += (chosen or first.get(lemma)) in target.senses
            total += 1
    return SenseScore(right=right, total=total, fell_back=fell_back)


def score_first(sentences: Sequence[SenseSentence], *, first: Mapping[Lemma, str]) -> SenseScore:
    """The score of always choosing the first sense."""
    targets = [target for sentence in sentences for target in sentence.targets]
    right = sum(first.get((target.lemma, target.pos)) in target.senses for target in targets)
    return SenseScore(right=right, total=len(targets), fell_back=len(targets))


def target_vector(vectors: NDArray[np.floating], target: SenseTarget) -> NDArray[np.float64]:
    """The vector of an annotated word, the mean over its tokens, float64 (width)."""
    mean: NDArray[np.float64] = vectors[target.start : target.end].mean(axis=0, dtype=np.float64)
    return mean


def _unit(vector: NDArray[np.floating]) -> NDArray[np.float64]:
    length = float(np.linalg.norm(vector))
    return np.asarray(vector / length if length else vector, dtype=np.float64)
