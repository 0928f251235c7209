"""The text that language models are trained and evaluated on: any corpus the dump accepts, read again and again."""

from __future__ import annotations

import functools
import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, get_args

import click

from pipeline.config import CorpusConfig, InputFormat
from pipeline.corpus import corpus_tokenizer, read_sentences
from pipeline.formats.streams import InputFile
from pipeline.inputs import list_inputs
from pipeline.tokenizers import TOKENIZER_NAMES, Tokenizer


def corpus_options(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the options that say how a corpus is read, as the argument `corpus_config`."""

    @functools.wraps(command)
    def configured(
        *arguments: Any, input_format: InputFormat, glob: str, encoding: str, tokenizer: str, **options: Any
    ) -> None:
        config = CorpusConfig(
            input_format=input_format, glob=glob, encoding=encoding, tokenizer=tokenizer, blank_lines="skip"
        )
        command(*arguments, corpus_config=config, **options)

    decorators = (
        click.option(
            "--tokenizer",
            type=click.Choice(TOKENIZER_NAMES),
            default=CorpusConfig.tokenizer,
            show_default=True,
            help="whitespace takes a line as one tokenised sentence; the others split raw prose.",
        ),
        click.option(
            "--input-format",
            type=click.Choice(get_args(InputFormat)),
            default=CorpusConfig.input_format,
            show_default=True,
            help="auto goes by the file names.",
        ),
        click.option("--glob", default=CorpusConfig.glob, show_default=True, help="Which files of a folder are read."),
        click.option("--encoding", default=CorpusConfig.encoding, show_default=True, help="Of the text files."),
    )
    return functools.reduce(lambda decorated, decorator: decorator(decorated), reversed(decorators), configured)


@dataclass(frozen=True, kw_only=True)
class Prose:
    """The files of a corpus and how they are read; blank lines are left out.

    Attributes:
        files: In order.
        config: How they are read.
        tokenizer: The one the configuration names.
    """

    files: list[InputFile]
    config: CorpusConfig
    tokenizer: Tokenizer

    @classmethod
    def open(cls, corpus: str, config: CorpusConfig) -> Prose:
        """Lists the files of a corpus.

        Raises:
            PipelineError: There are none, or the tokenizer can't be had.
        """
        return cls(files=list_inputs([corpus], config), config=config, tokenizer=corpus_tokenizer(config))

    def sentences_of(self, file: InputFile) -> Iterator[tuple[str, ...]]:
        """The tokens of each sentence of a file."""
        counts: Counter[str] = Counter()
        for sentence in read_sentences(file, self.config, tokenizer=self.tokenizer, counts=counts):
            yield sentence.tokens

    def sentences(self) -> Iterator[tuple[str, ...]]:
        """The tokens of each sentence, files in order."""
        for file in self.files:
            yield from self.sentences_of(file)

    def epochs(self, *, seed: int) -> Callable[[int], Iterator[tuple[str, ...]]]:
        """The sentences of an epoch by its number, files in an order drawn for it."""

        def epoch(number: int) -> Iterator[tuple[str, ...]]:
            order = list(self.files)
            random.Random(f"{seed} {number}").shuffle(order)
            for file in order:
                yield from self.sentences_of(file)

        return epoch
