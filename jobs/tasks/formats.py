"""Readers of labelled data: tagged tokens, labelled sentences, sentiment trees, word senses.

A sentence's id is `FILE:LINE`, with the file's name and the 1-based line where the sentence starts, unless the format
has ids of its own. The same ids go into the corpus that is dumped and come back when features meet labels.
"""

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.errors import CorpusError

# A sense key is `lemma%ss_type:...`; adjective satellites (5) count as adjectives.
SENSE_POS = {"1": "NOUN", "2": "VERB", "3": "ADJ", "4": "ADV", "5": "ADJ"}


@dataclass(frozen=True, kw_only=True, slots=True)
class TaggedSentence:
    """A sentence with a tag for each token."""

    id: str
    tokens: tuple[str, ...]
    tags: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class LabelledSentence:
    """A sentence with one label."""

    id: str
    tokens: tuple[str, ...]
    label: str


@dataclass(frozen=True, kw_only=True, slots=True)
class SenseTarget:
    """An annotated word in a sentence: the tokens `start` up to `end`, its lemma, part of speech and right senses."""

    start: int
    end: int
    lemma: str
    pos: str
    senses: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class SenseSentence:
    """A sentence with sense-annotated words."""

    id: str
    tokens: tuple[str, ...]
    targets: tuple[SenseTarget, ...]


Example = TaggedSentence | LabelledSentence | SenseSentence


def gold_labels(sentence: TaggedSentence | LabelledSentence) -> tuple[str, ...]:
    """The right tags of the tokens, or the one right label of the sentence."""
    return sentence.tags if isinstance(sentence, TaggedSentence) else (sentence.label,)


def read_tagged(path: Path, *, column: int = 1) -> list[TaggedSentence]:
    """Sentences of `TOKEN<tab>TAG[<tab>TAG...]` lines with an empty line after each (TSV, IOB2).

    Lines that start with `# ` are comments.

    Args:
        path: The file, or the same with `.gz`.
        column: Which column holds the tag; 1 is the first after the token.

    Raises:
        CorpusError: A line has too few columns or an empty cell; names file and line.
    """
    sentences: list[TaggedSentence] = []
    tokens: list[str] = []
    tags: list[str] = []
    start = 0

    def close() -> None:
        if tokens:
            sentences.append(TaggedSentence(id=f"{path.name}:{start}", tokens=tuple(tokens), tags=tuple(tags)))
            tokens.clear()
            tags.clear()

    for number, line in _lines(path):
        if not line.strip():
            close()
        elif not line.startswith("# "):
            cells = line.split("\t")
            if len(cells) <= column or not cells[0] or not cells[column]:
                raise CorpusError(
                    f"{path}:{number}: expected a token and {column} tab-separated tags, found {line!r:.80}"
                )
            if not tokens:
                start = number
            tokens.append(cells[0])
            tags.append(cells[column])
    close()
    return sentences


def read_labelled(path: Path) -> list[LabelledSentence]:
    """Sentences of `LABEL<tab>TEXT` lines, the text split at white space; blank lines are skipped.

    Raises:
        CorpusError: A line without a tab, a label or any token; names file and line.
    """
    sentences = []
    for number, line in _lines(path):
        if line.strip():
            label, _, text = line.partition("\t")
            tokens = tuple(text.split())
            if not label or not tokens:
                raise CorpusError(f"{path}:{number}: expected LABEL<tab>TEXT, found {line!r:.80}")
            sentences.append(LabelledSentence(id=f"{path.name}:{number}", tokens=tokens, label=label))
    return sentences


def read_trees(path: Path) -> list[LabelledSentence]:
    """The tokens and root label of each tree in brackets, one a line, such as `(3 (2 Good) (2 film))`.

    Raises:
        CorpusError: Brackets that do not match, or a leaf that is not `(LABEL TOKEN)`; names file and line.
    """
    sentences = []
    for number, line in _lines(path):
        if line.strip():
            label, tokens = _parse_tree(line, f"{path}:{number}")
            sentences.append(LabelledSentence(id=f"{path.name}:{number}", tokens=tokens, label=label))
    return sentences


def read_senses(path: Path) -> list[SenseSentence]:
    """Sense-annotated sentences of a JSONL file, in the layout of SemCor or of the all-words test sets.

    Each line is `{"id", "tokens", "lemmas", "pos", "senses"}`, with `[token, sense key]` (SemCor) or
    `[token, instance, [sense keys]]` (test sets) under `senses`. Tokens joined by underscores are split, since a
    character model has never seen them; a target then covers all its parts.

    Raises:
        CorpusError: A line that is not such an object; names file and line.
    """
    sentences = []
    for number, line in _lines(path):
        if line.strip():
            try:
                sentences.append(_sense_sentence(json.loads(line)))
            except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError) as error:
                raise CorpusError(
                    f"{path}:{number}: not a sense-annotated sentence ({type(error).__name__}: {error})"
                ) from None
    return sentences


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    opener: Any = gzip.open if path.suffix == ".gz" else open
    number = 0
    try:
        with opener(path, "rt", encoding="utf-8", newline="\n") as file:
            for number, line in enumerate(file, 1):
                yield number, line.rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise CorpusError(f"{path}: not UTF-8 after line {number}: {error}") from None
    except (OSError, EOFError) as error:
        raise CorpusError(f"{path}: cannot be read: {error}") from None


def _parse_tree(line: str, place: str) -> tuple[str, tuple[str, ...]]:
    tokens: list[str] = []
    depth = 0
    root = None
    # Only spaces separate: there are tokens with a no-break space inside.
    parts = [part for part in line.replace("(", " ( ").replace(")", " ) ").split(" ") if part]
    for position, part in enumerate(parts):
        before = parts[position - 1] if position else ""
        if part == "(":
            if depth == 0 and root is not None:
                raise CorpusError(f"{place}: more than one tree on the line")
            depth += 1
        elif part == ")":
            depth -= 1
            if depth < 0 or before == "(":
                raise CorpusError(f"{place}: brackets do not match, or are empty")
        elif before == "(":
            root = part if root is None else root
        elif depth > 0 and position > 1 and parts[position - 2] == "(" and parts[position + 1 : position + 2] == [")"]:
            tokens.append(part)
        else:
            raise CorpusError(f"{place}: {part!r:.40} is not in a leaf (LABEL TOKEN)")
    if depth or root is None or not tokens:
        raise CorpusError(f"{place}: not a whole tree such as (3 (2 Good) (2 film))")
    return root, tuple(tokens)


def _sense_sentence(value: Any) -> SenseSentence:
    tokens: list[str] = []
    spans = []
    for token in value["tokens"]:
        parts = token.split("_")
        parts = parts if all(parts) else [token]
        spans.append((len(tokens), len(tokens) + len(parts)))
        tokens += parts
    targets = []
    for annotation in value["senses"]:
        index = annotation[0]
        senses = tuple(annotation[2]) if len(annotation) == 3 else (annotation[1],)
        lemma, pos = sense_lemma(senses[0])
        if len(annotation) == 3:
            lemma = value["lemmas"][index].lower()
        start, end = spans[index]
        targets.append(SenseTarget(start=start, end=end, lemma=lemma, pos=pos, senses=senses))
    return SenseSentence(id=str(value["id"]), tokens=tuple(tokens), targets=tuple(targets))


def sense_lemma(sense: str) -> tuple[str, str]:
    """Lemma and part of speech of a WordNet sense key such as `bank%1:17:01::`.

    Raises:
        ValueError: It is no sense key.
    """
    lemma, mark, rest = sense.partition("%")
    if not lemma or not mark or rest[:1] not in SENSE_POS:
        raise ValueError(f"{sense!r} is no sense key such as 'bank%1:17:01::'")
    return lemma, SENSE_POS[rest[0]]
