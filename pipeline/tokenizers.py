"""Tokenizers for raw prose, by name: a line of text in, tokenised sentences out.

`whitespace` (the default) takes a line as one sentence that is already tokenised. The others split a line, usually a
paragraph, into sentences and those into tokens; each needs an optional library: `pip install elmo-features[english]` or
`[chinese]`. Their names and versions are recorded wherever their tokens are used.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module, metadata
from types import ModuleType
from typing import Any, NamedTuple

TOKENIZER_NAMES = ("whitespace", "english", "chinese")

# spaCy keeps every string it has seen; a fresh tokenizer after this many keeps the memory bounded on an endless corpus.
_MAX_SPACY_STRINGS = 1_000_000

# Up to and with the marks that end a sentence, then the quotes and brackets that close after them.
_CHINESE_SENTENCE = re.compile(r"[^。！？!?…]*[。！？!?…]+[”’」』）)]*|[^。！？!?…]+")


class TokenizedSentence(NamedTuple):
    """One sentence of a line: its text as written and its tokens (none for a blank line)."""

    text: str
    tokens: list[str]


class MissingTokenizerLibraryError(RuntimeError):
    """The library of the chosen tokenizer is not installed; the message says how to install it."""


@dataclass(frozen=True, kw_only=True)
class Tokenizer:
    """A named way to cut lines of text into tokenised sentences.

    Attributes:
        name: one of `TOKENIZER_NAMES`.
        version: the tokenizer with the versions of its libraries, e.g. `english (spacy 3.8.18, syntok 1.4.4)`; tokens
            of two versions may differ, so this is what a plan or a model card records.
    """

    name: str
    version: str
    split: Callable[[str], list[TokenizedSentence]]

    def __call__(self, line: str) -> list[TokenizedSentence]:
        """The sentences of a line, at least one; a blank line is one sentence without tokens."""
        line = line.strip()
        if not line:
            return [TokenizedSentence("", [])]
        return self.split(line)


def load_tokenizer(name: str) -> Tokenizer:
    """The tokenizer of that name, ready to use.

    Raises:
        ValueError: there is no tokenizer of that name.
        MissingTokenizerLibraryError: its library is not installed.
    """
    if name == "whitespace":
        return Tokenizer(name=name, version=name, split=_split_at_white_space)
    if name == "english":
        spacy = _library("spacy", extra="english")
        syntok = _library("syntok.segmenter", extra="english")
        return Tokenizer(name=name, version=_version(name, "spacy", "syntok"), split=_EnglishSplitter(spacy, syntok))
    if name == "chinese":
        rjieba = _library("rjieba", extra="chinese")
        return Tokenizer(name=name, version=_version(name, "rjieba"), split=_ChineseSplitter(rjieba))
    raise ValueError(f"unknown tokenizer {name!r}; choose one of {', '.join(TOKENIZER_NAMES)}")


def _split_at_white_space(line: str) -> list[TokenizedSentence]:
    return [TokenizedSentence(line, line.split())]


class _EnglishSplitter:
    """Sentences by syntok, which copes with abbreviations and quotations; tokens by spaCy's English rules.

    These follow the Penn and English Web Treebanks ("do n't", "well - known"). Neither library needs a trained model.
    """

    def __init__(self, spacy: ModuleType, syntok: ModuleType) -> None:
        self._spacy = spacy
        self._syntok = syntok
        self._sentence_tokens = import_module("syntok.tokenizer").Tokenizer()
        self._nlp: Any = spacy.blank("en")

    def __call__(self, line: str) -> list[TokenizedSentence]:
        if len(self._nlp.vocab.strings) > _MAX_SPACY_STRINGS:
            self._nlp = self._spacy.blank("en")
        starts = [
            sentence[0].offset for sentence in self._syntok.segment(self._sentence_tokens.tokenize(line)) if sentence
        ]
        starts = [0, *starts[1:]]
        sentences = []
        for start, end in zip(starts, [*starts[1:], len(line)], strict=True):
            text = line[start:end].strip()
            sentences.append(
                TokenizedSentence(text, [token.text for token in self._nlp.tokenizer(text) if not token.is_space])
            )
        return sentences


class _ChineseSplitter:
    """Sentences at full stops, question and exclamation marks; words by rjieba, which is jieba in Rust."""

    def __init__(self, rjieba: ModuleType) -> None:
        self._rjieba = rjieba

    def __call__(self, line: str) -> list[TokenizedSentence]:
        texts = (match.group().strip() for match in _CHINESE_SENTENCE.finditer(line))
        return [
            TokenizedSentence(text, [token for token in self._rjieba.cut(text) if not token.isspace()])
            for text in texts
            if text
        ]


def _library(module: str, *, extra: str) -> ModuleType:
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingTokenizerLibraryError(
            f"the {extra} tokenizer needs {module.partition('.')[0]}; "
            f"install it with: pip install 'elmo-features[{extra}]'"
        ) from error


def _version(name: str, *distributions: str) -> str:
    return f"{name} ({', '.join(f'{distribution} {metadata.version(distribution)}' for distribution in distributions)})"
