"""Labelled data and stores for the tests of task models."""

from collections.abc import Sequence
from pathlib import Path

from elmo_model.weights import write_bilm
from jobs.encoders.bilm import BiLmEncoderFactory
from jobs.run_dump import run_dump
from jobs.tasks.features import write_corpus
from jobs.tasks.formats import Example, TaggedSentence
from pipeline.config import DumpConfig
from pipeline.reader import FeatureStore
from support.bilms import random_bilm

WORDS = ("the", "cat", "sat", "on", "mats", "Rome", "and", "ran")
TAGS = ("DET", "NOUN", "VERB", "ADP", "NOUN", "PROPN", "CCONJ", "VERB")


def tagged_sentences(count: int, *, name: str = "train.tsv") -> list[TaggedSentence]:
    """Sentences whose tags depend on the word alone."""
    sentences = []
    for number in range(count):
        chosen = [(number * 5 + place * 3) % len(WORDS) for place in range(1 + number % 6)]
        sentences.append(
            TaggedSentence(
                id=f"{name}:{number + 1}",
                tokens=tuple(WORDS[row] for row in chosen),
                tags=tuple(TAGS[row] for row in chosen),
            )
        )
    return sentences


def write_tagged(path: Path, sentences: Sequence[TaggedSentence]) -> None:
    """The file that `read_tagged` reads."""
    blocks = (zip(sentence.tokens, sentence.tags, strict=True) for sentence in sentences)
    text = "\n".join("".join(f"{token}\t{tag}\n" for token, tag in block) for block in blocks)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def tiny_model(folder: Path) -> Path:
    """A model folder with a random two-layer biLM."""
    write_bilm(random_bilm(), folder)
    return folder


def dumped(examples: Sequence[Example], folder: Path) -> FeatureStore:
    """A store of the sentences by a tiny model, in a new folder."""
    folder.mkdir(parents=True, exist_ok=True)
    write_corpus(examples, folder / "corpus.jsonl")
    encoder = BiLmEncoderFactory(model=str(tiny_model(folder / "model")))
    run_dump([str(folder / "corpus.jsonl")], str(folder / "features"), encoder=encoder, config=DumpConfig())
    return FeatureStore.open(folder / "features")
