"""The data sets of the studies: where their files stand below a data folder, and how much of them is used."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

from jobs.tasks.batches import TaskSentence
from jobs.tasks.formats import SenseSentence, read_labelled, read_senses, read_tagged, read_trees
from jobs.tasks.supervised import Splits
from pipeline.errors import ConfigError

Language = Literal["en", "zh"]
_Sentence = TypeVar("_Sentence")
# The four test sets that the papers score together; SemEval-2007 is the usual development set.
SENSE_TESTS = ("senseval2", "senseval3", "semeval2013", "semeval2015")
SENSES = "senses"


@dataclass(frozen=True, kw_only=True)
class TaskFiles:
    """A data set of labelled sentences: `FOLDER/{train,dev,test}SUFFIX`."""

    title: str
    language: Language
    folder: str
    suffix: str


DATASETS = {
    "pos": TaskFiles(title="POS, UD English EWT", language="en", folder="pos-ud-english-ewt", suffix=".tsv"),
    "wnut": TaskFiles(title="NER, WNUT-17", language="en", folder="ner-wnut17", suffix=".iob2"),
    "wikigold": TaskFiles(title="NER, WikiGold", language="en", folder="ner-wikigold", suffix=".iob2"),
    "polarity": TaskFiles(title="Sentiment, polarity", language="en", folder="sentiment-polarity", suffix=".tsv"),
    "sst": TaskFiles(title="Sentiment, SST-5", language="en", folder="sentiment-sst", suffix=".trees.txt"),
    "pos-zh": TaskFiles(title="POS, UD Chinese GSD", language="zh", folder="pos-ud-chinese-gsd", suffix=".tsv"),
    "ner-zh": TaskFiles(title="NER, Chinese GSD", language="zh", folder="ner-uner-chinese-gsdsimp", suffix=".iob2"),
}


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """How much data the runs see; the same for every column of a table. None takes all.

    Attributes:
        train_sentences: A random choice of the training sentences, the same for every run.
        dev_sentences: The same of the development sentences, which only choose the epoch or compare variants.
        sense_sentences: The same of the sense-annotated corpus.
    """

    train_sentences: int | None = 2000
    dev_sentences: int | None = 500
    sense_sentences: int | None = None

    def __post_init__(self) -> None:
        if any(
            size is not None and size < 1 for size in (self.train_sentences, self.dev_sentences, self.sense_sentences)
        ):
            raise ConfigError("numbers of sentences start at 1")


@dataclass(frozen=True, kw_only=True)
class SenseData:
    """The sense-annotated corpus, and the test sets by name."""

    corpus: Sequence[SenseSentence]
    tests: dict[str, Sequence[SenseSentence]]

    def sentences(self) -> list[SenseSentence]:
        """All of them, the corpus first."""
        return [*self.corpus, *(sentence for test in self.tests.values() for sentence in test)]


def load_splits(data: Path, dataset: str, sizes: Sizes) -> Splits:
    """The sentences of a data set, cut down to the sizes.

    Raises:
        CorpusError: A file is missing or malformed.
    """
    files = DATASETS[dataset]

    def read(part: str) -> Sequence[TaskSentence]:
        path = data / files.folder / f"{part}{files.suffix}"
        if files.folder.startswith("sentiment"):
            return read_trees(path) if files.suffix == ".trees.txt" else read_labelled(path)
        return read_tagged(path)

    return Splits(
        train=chosen(read("train"), sizes.train_sentences),
        dev=chosen(read("dev"), sizes.dev_sentences),
        test=read("test"),
    )


def load_senses(data: Path, sizes: Sizes) -> SenseData:
    """SemCor and the four test sets, the corpus cut down to the sizes."""
    folder = data / "wsd-semcor-raganato"
    parts = [read_senses(folder / f"semcor3-{part}.jsonl.gz") for part in ("brown1", "brown2", "brownv")]
    return SenseData(
        corpus=chosen([sentence for part in parts for sentence in part], sizes.sense_sentences),
        tests={name: read_senses(folder / "eval" / f"{name}.jsonl") for name in SENSE_TESTS},
    )


def chosen(sentences: Sequence[_Sentence], count: int | None) -> Sequence[_Sentence]:
    """So many sentences, chosen at random but always the same, in their order; those of a smaller choice are in it."""
    if count is None or count >= len(sentences):
        return sentences
    order = list(range(len(sentences)))
    random.Random(0).shuffle(order)
    return [sentences[row] for row in sorted(order[:count])]
