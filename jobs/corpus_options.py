"""The options that say how a corpus is read, for every command that reads one."""

import functools
from collections.abc import Callable
from typing import Any, TypeVar, get_args

import click

from pipeline.config import BlankLines, ConlluColumn, CorpusConfig, FastaId, InputFormat
from pipeline.tokenizers import TOKENIZER_NAMES

_Command = TypeVar("_Command", bound=Callable[..., Any])


def corpus_options(command: Callable[..., int]) -> Callable[..., int]:
    """Gives a command these options, and their values as one argument `corpus`, a CorpusConfig."""

    @_choice("--input-format", InputFormat, CorpusConfig.input_format, help="auto goes by the file names.")
    @_text("--glob", CorpusConfig.glob, help="Which files of a folder are read.")
    @_text("--encoding", CorpusConfig.encoding, help="Of the text files.")
    @click.option(
        "--tokenizer",
        type=click.Choice(TOKENIZER_NAMES),
        default=CorpusConfig.tokenizer,
        show_default=True,
        help="whitespace takes a line as one tokenised sentence.",
    )
    @click.option("--skip-empty", "blank_lines", flag_value="skip", help="Leave blank lines out; else they are kept.")
    @click.option("--strict", "blank_lines", flag_value="refuse", help="Refuse blank lines, naming file and line.")
    @_text("--id-column", CorpusConfig.id_column, help="JSON lines and tables: where the id is.")
    @_text("--text-column", CorpusConfig.text_column, help="JSON lines and tables: where the text is.")
    @_text("--tokens-column", CorpusConfig.tokens_column, help="JSON lines and tables: where given tokens are.")
    @_choice("--conllu-column", ConlluColumn, CorpusConfig.conllu_column, help="CoNLL-U: what the tokens are.")
    @click.option("--conll-column", type=int, help="Other CoNLL files: column of the tokens, counted from 1.")
    @_choice("--fasta-id", FastaId, CorpusConfig.fasta_id, help="FASTA: what of the header is the id.")
    @functools.wraps(command)
    def with_corpus(
        *args: Any,
        input_format: InputFormat,
        glob: str,
        encoding: str,
        tokenizer: str,
        blank_lines: BlankLines | None,
        id_column: str,
        text_column: str,
        tokens_column: str,
        conllu_column: ConlluColumn,
        conll_column: int | None,
        fasta_id: FastaId,
        **others: Any,
    ) -> int:
        corpus = CorpusConfig(
            input_format=input_format,
            glob=glob,
            encoding=encoding,
            tokenizer=tokenizer,
            blank_lines=blank_lines or CorpusConfig.blank_lines,
            id_column=id_column,
            text_column=text_column,
            tokens_column=tokens_column,
            conllu_column=conllu_column,
            conll_column=conll_column,
            fasta_id=fasta_id,
        )
        return command(*args, corpus=corpus, **others)

    return with_corpus


def _choice(name: str, allowed: Any, default: str, *, help: str) -> Callable[[_Command], _Command]:  # noqa: A002
    return click.option(name, type=click.Choice(get_args(allowed)), default=default, show_default=True, help=help)


def _text(name: str, default: str, *, help: str) -> Callable[[_Command], _Command]:  # noqa: A002
    return click.option(name, default=default, show_default=True, help=help)
