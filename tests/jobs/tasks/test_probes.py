"""Linear probes and nearest senses, on vectors whose right answer is known."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from jobs.tasks.formats import Example, SenseSentence, SenseTarget, TaggedSentence, read_senses
from jobs.tasks.probe import ProbeConfig, linear_probe
from jobs.tasks.sources import StaticSource
from jobs.tasks.words import StaticVectors
from jobs.tasks.wsd import SenseScore, SenseVectors, read_first_senses, score_first, score_nearest
from pipeline.errors import ConfigError, CorpusError
from support.paths import shared

FIRST = {("bank", "NOUN"): "bank%1:17:01::", ("run", "VERB"): "run%2:38:00::"}


@dataclass(frozen=True)
class Given:
    """Vectors by sentence id."""

    vectors: Mapping[str, Sequence[Sequence[float]]]

    def of(self, sentences: Sequence[Example]) -> list[NDArray[np.float32]]:
        return [np.array(self.vectors[sentence.id], dtype=np.float32) for sentence in sentences]


def sense(name: str, senses: Sequence[str], *, start: int = 0, end: int = 1, pos: str = "NOUN") -> SenseSentence:
    target = SenseTarget(start=start, end=end, lemma=senses[0].split("%")[0], pos=pos, senses=tuple(senses))
    return SenseSentence(id=name, tokens=("x",) * end, targets=(target,))


def test_the_nearest_mean_by_cosine_is_chosen() -> None:
    river, money = "bank%1:17:01::", "bank%1:14:00::"
    source = Given(
        {
            "c1": [[1.0, 0.2]],
            "c2": [[1.0, -0.2]],
            "c3": [[0.0, 0.1]],
            "t1": [[0.1, 0.05]],
            "t2": [[9.0, 10.0]],
            "t3": [[9.0, 0.0], [0.0, 20.0]],
        }
    )
    corpus = [sense("c1", [river]), sense("c2", [river]), sense("c3", [money])]
    senses = SenseVectors(corpus, source, block=2)
    tests = [sense("t1", [river]), sense("t2", [river, money]), sense("t3", [money], end=2)]
    assert score_nearest(senses, tests, source, first={}) == SenseScore(right=3, total=3, fell_back=0)
    wrong = [sense("t1", [money])]
    assert score_nearest(senses, wrong, source, first={}).f1 == 0.0


def test_a_lemma_that_the_corpus_lacks_takes_its_first_sense() -> None:
    source = Given({"c": [[1.0]], "t1": [[1.0]], "t2": [[1.0]]})
    senses = SenseVectors([sense("c", ["bank%1:14:00::"])], source)
    tests = [sense("t1", ["run%2:38:00::"], pos="VERB"), sense("t2", ["bank%1:17:01::"])]
    assert score_nearest(senses, tests, source, first=FIRST) == SenseScore(right=1, total=2, fell_back=1)
    assert score_first(tests, first=FIRST).f1 == 1.0


def test_first_senses_of_the_four_test_sets_together_score_as_in_the_paper() -> None:
    folder = shared("data/wsd-semcor-raganato")
    first = read_first_senses(folder / "first-senses.tsv")
    total = SenseScore(right=0, total=0, fell_back=0)
    for name in ("senseval2", "senseval3", "semeval2013", "semeval2015"):
        total = total + score_first(read_senses(folder / "eval" / f"{name}.jsonl"), first=first)
    assert total.total == 6798
    assert round(100 * total.f1, 1) == 65.9


def test_a_short_line_of_first_senses_is_named(tmp_path: Path) -> None:
    (tmp_path / "first.tsv").write_text("bank\tNOUN\tbank%1:17:01::\t10\nrun\tVERB\n", encoding="utf-8")
    with pytest.raises(CorpusError, match=r"first\.tsv:2"):
        read_first_senses(tmp_path / "first.tsv")


def test_a_probe_learns_what_is_linear_and_counts_unseen_tags_as_wrong() -> None:
    words = ["a", "b", "c", "d"]
    vectors = StaticVectors(words, np.array([[0, 0], [0, 100], [1, 0], [1, 100]], dtype=np.float32))
    tags = {"a": "X", "b": "X", "c": "Y", "d": "Y"}
    train = [
        TaggedSentence(
            id=f"s{n}", tokens=(words[n % 4], words[(n + 1) % 4]), tags=(tags[words[n % 4]], tags[words[(n + 1) % 4]])
        )
        for n in range(40)
    ]
    unseen = [TaggedSentence(id="u", tokens=("a", "c", "d", "b"), tags=("X", "Y", "Z", "X"))]
    config = ProbeConfig(epochs=30, batch_tokens=8, learning_rate=0.05)
    result = linear_probe(StaticSource(vectors), train=train, dev=train, test=unseen, config=config)
    assert result.dev == 1.0
    assert result.test == 0.75
    assert linear_probe(StaticSource(vectors), train=train, dev=train, test=unseen, config=config) == result
    with pytest.raises(ConfigError, match="epochs"):
        ProbeConfig(epochs=0)


def test_static_vectors_are_looked_up_in_lower_case_and_are_zero_where_absent(tmp_path: Path) -> None:
    np.save(tmp_path / "vectors.npy", np.array([[1, 2], [3, 4]], dtype=np.float16))
    (tmp_path / "words.txt").write_text("rome\n中\n", encoding="utf-8")
    vectors = StaticVectors.read(tmp_path)
    np.testing.assert_array_equal(vectors.of(["Rome", "x", "中"]), [[1, 2], [0, 0], [3, 4]])
    (tmp_path / "words.txt").write_text("rome\n", encoding="utf-8")
    with pytest.raises(CorpusError, match=r"1 words .* \(2, 2\)"):
        StaticVectors.read(tmp_path)
    with pytest.raises(CorpusError, match="no static vectors"):
        StaticVectors.read(tmp_path / "absent")
