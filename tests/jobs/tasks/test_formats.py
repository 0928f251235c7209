"""Readers of labelled data: what they give, and how they refuse what is malformed."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jobs.tasks.formats import (
    LabelledSentence,
    SenseTarget,
    TaggedSentence,
    read_labelled,
    read_senses,
    read_tagged,
    read_trees,
)
from pipeline.errors import CorpusError
from support.paths import shared


def write(tmp_path: Path, text: str, name: str = "train.tsv") -> Path:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def test_tagged_sentences_are_named_by_file_and_first_line(tmp_path: Path) -> None:
    path = write(tmp_path, "# newdoc id = a\nThe\tDET\tDT\n#\tSYM\tNN\n\n\nno\xa0break\tX\tY\nb\tZ\tW")
    assert read_tagged(path) == [
        TaggedSentence(id="train.tsv:2", tokens=("The", "#"), tags=("DET", "SYM")),
        TaggedSentence(id="train.tsv:6", tokens=("no\xa0break", "b"), tags=("X", "Z")),
    ]
    assert read_tagged(path, column=2)[0].tags == ("DT", "NN")


def test_gzip_is_read_as_the_file_it_holds(tmp_path: Path) -> None:
    path = tmp_path / "a.iob2.gz"
    path.write_bytes(gzip.compress(b"x\tO\n"))
    assert read_tagged(path)[0].tokens == ("x",)


def test_labels_and_trees(tmp_path: Path) -> None:
    assert read_labelled(write(tmp_path, "1\tgood  film .\n\n0\tbad\n")) == [
        LabelledSentence(id="train.tsv:1", tokens=("good", "film", "."), label="1"),
        LabelledSentence(id="train.tsv:3", tokens=("bad",), label="0"),
    ]
    trees = write(tmp_path, "(3 (2 Good) (4 (2 8\xa01) (2 -LRB-)))\n(0 bad)\n", "dev.trees.txt")
    assert read_trees(trees) == [
        LabelledSentence(id="dev.trees.txt:1", tokens=("Good", "8\xa01", "-LRB-"), label="3"),
        LabelledSentence(id="dev.trees.txt:2", tokens=("bad",), label="0"),
    ]


def test_senses_of_both_layouts_with_joined_words_split(tmp_path: Path) -> None:
    lines: list[dict[str, Any]] = [
        {
            "id": "s1",
            "tokens": ["took_place", "in", "_"],
            "lemmas": ["take_place", "in", "_"],
            "senses": [[0, "take_place%2:30:00::"]],
        },
        {
            "id": "t1",
            "tokens": ["The", "Art"],
            "lemmas": ["the", "Art"],
            "senses": [[1, "i0", ["art%1:06:00::", "art%1:09:00::"]]],
        },
    ]
    path = write(tmp_path, "".join(json.dumps(line) + "\n" for line in lines), "s.jsonl")
    first, second = read_senses(path)
    assert first.tokens == ("took", "place", "in", "_")
    assert first.targets == (
        SenseTarget(start=0, end=2, lemma="take_place", pos="VERB", senses=("take_place%2:30:00::",)),
    )
    assert second.targets == (
        SenseTarget(start=1, end=2, lemma="art", pos="NOUN", senses=("art%1:06:00::", "art%1:09:00::")),
    )


@pytest.mark.parametrize(
    ("reader", "text", "line"),
    [
        (read_tagged, "a\tX\nb\n", 2),
        (read_tagged, "a\tX\n\tX\n", 2),
        (read_labelled, "1\ta\nno tab\n", 2),
        (read_labelled, "1\t \n", 1),
        (read_trees, "(1 (2 a) (2 b)\n", 1),
        (read_trees, "(1 a)\n(1 a))\n", 2),
        (read_trees, "(1 a) (2 b)\n", 1),
        (read_trees, "(1 a b)\n", 1),
        (read_trees, "()\n", 1),
        (read_senses, '{"id": "a", "tokens": ["x"], "lemmas": ["x"], "senses": []}\n{"id": "b"}\n', 2),
        (read_senses, '{"id": "a", "tokens": ["x"], "lemmas": ["x"], "senses": [[4, "x%1:"]]}\n', 1),
        (read_senses, '{"id": "a", "tokens": ["x"], "lemmas": ["x"], "senses": [[0, "x"]]}\n', 1),
        (read_senses, "[]\n", 1),
    ],
)
def test_malformed_lines_are_named(tmp_path: Path, reader: Callable[[Path], object], text: str, line: int) -> None:
    path = write(tmp_path, text)
    with pytest.raises(CorpusError, match=rf"train\.tsv:{line}: "):
        reader(path)


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_bytes(b"a\tX\n\xff\tX\n")
    with pytest.raises(CorpusError, match="not UTF-8"):
        read_tagged(path)
    with pytest.raises(CorpusError, match="cannot be read"):
        read_tagged(tmp_path / "absent.tsv")


@pytest.mark.parametrize(
    ("reader", "name", "sentences", "labels"),
    [
        (read_tagged, "pos-ud-english-ewt/dev.tsv", 2001, 25147),
        (read_tagged, "ner-wnut17/dev.iob2", 1009, 15733),
        (read_tagged, "pos-ud-chinese-gsd/test.tsv", 499, 11977),
    ],
)
def test_real_tagged_files_have_their_known_sizes(
    reader: Callable[[Path], list[TaggedSentence]], name: str, sentences: int, labels: int
) -> None:
    read = reader(shared(f"data/{name}"))
    assert len(read) == sentences
    assert sum(len(sentence.tags) for sentence in read) == labels


def test_real_trees_have_their_known_labels() -> None:
    read = read_trees(shared("data/sentiment-sst/dev.trees.txt"))
    assert [sum(sentence.label == label for sentence in read) for label in "01234"] == [139, 289, 229, 279, 165]
