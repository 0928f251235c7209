"""`elmo vocab`: the vocabulary of a corpus, for pretraining."""

from __future__ import annotations

from pathlib import Path

import click

from elmo_model.pretraining.vocabulary_building import build_vocabulary, count_words, write_vocabulary
from jobs.prose import Prose, corpus_options
from pipeline.config import CorpusConfig


@click.command()
@click.argument("corpus")
@click.argument("output", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--size", type=click.IntRange(min=4), help="Most words, the three marks included; all by default.")
@click.option(
    "--min-count", type=click.IntRange(min=1), default=1, show_default=True, help="Least occurrences of a word."
)
@corpus_options
def vocab(corpus: str, output: Path, size: int | None, min_count: int, corpus_config: CorpusConfig) -> None:
    """Write the words of CORPUS to OUTPUT, one a line: the marks <S>, </S>, <UNK>, then words by falling frequency."""
    counts = count_words(Prose.open(corpus, corpus_config).sentences())
    vocabulary = build_vocabulary(counts, size=size, min_count=min_count)
    output.parent.mkdir(parents=True, exist_ok=True)
    write_vocabulary(vocabulary, output)
    total = counts.total()
    unknown = sum(count for word, count in counts.items() if word not in vocabulary)
    click.echo(
        f"{output}: {len(vocabulary):,} words of {len(counts):,}; {unknown / total:.2%} of {total:,} tokens are unknown"
    )
