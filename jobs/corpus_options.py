"""The options that say how a corpus is read, for every command that reads one."""

import functools
from collections.abc import Callable
from typing import Any

import click

from jobs.options import choice, text
from pipeline.config import BlankLines, ConlluColumn, CorpusConfig, FastaId, InputFormat
from pipeline.tokenizers import TOKENIZER_NAMES


def corpus_options(command: Callable[..., int]) -> Callable[..., int]:
    """Gives a command these options, and their values as one argument `corpus`, a CorpusConfig."""

    @choice("--input-format", of=InputFormat, default=CorpusConfig.input_format, help="auto goes by the file names.")
    @text("--glob", default=CorpusConfig.glob, help="Which files of a folder are read.")
    @text("--encoding", default=CorpusConfig.encoding, help="Of the text files.")
    @click.option(
        "--tokenizer",
        type=click.Choice(TOKENIZER_NAMES),
        default=CorpusConfig.tokenizer,
        show_default=True,
        help="whitespace takes a line as one tokenised sentence.",
    )
    @click.option("--skip-empty", "blank_lines", flag_value="skip", help="Leave blank lines out; else they are kept.")
    @click.option("--strict", "blank_lines", flag_value="refuse", help="Refuse blank lines, naming file and line.")
    @text("--id-column", default=CorpusConfig.id_column, help="JSON lines and tables: where the id is.")
    @text("--text-column", default=CorpusConfig.text_column, help="JSON lines and tables: where the text is.")
    @text("--tokens-column", default=CorpusConfig.tokens_column, help="JSON lines and tables: where given tokens are.")
    @text(
        "--spans-column", default=CorpusConfig.spans_column, help="JSON lines and tables: spans of tokens, for --pool."
    )
    @choice(
        "--conllu-column", of=ConlluColumn, default=CorpusConfig.conllu_column, help="CoNLL-U: what the tokens are."
    )
    @click.option("--conll-column", type=int, help="Other CoNLL files: column of the tokens, counted from 1.")
    @choice("--fasta-id", of=FastaId, default=CorpusConfig.fasta_id, help="FASTA: what of the header is the id.")
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
        spans_column: str,
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
            spans_column=spans_column,
            conllu_column=conllu_column,
            conll_column=conll_column,
            fasta_id=fasta_id,
        )
        return command(*args, corpus=corpus, **others)

    return with_corpus
