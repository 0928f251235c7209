"""Shards and stores with known contents, made without a model."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.records import Sentence
from pipeline.schema import Column, ShardFormat, StoredDtype
from pipeline.shards import create_shard

FORMATS: tuple[ShardFormat, ...] = ("hdf5", "parquet")


def bilm_columns(layers: int, *, width: int) -> tuple[Column, ...]:
    """The columns of a biLM with a number of LSTM layers."""
    columns = [Column(name="token", width=width, layer=0, direction="none")]
    for layer in range(1, layers + 1):
        columns.append(Column(name=f"forward_{layer}", width=width, layer=layer, direction="forward"))
        columns.append(Column(name=f"backward_{layer}", width=width, layer=layer, direction="backward"))
    return tuple(columns)


def make_sentences(lengths: Sequence[int], *, source: str = "a.txt", first_line: int = 1) -> list[Sentence]:
    """Sentences of given lengths with ids, texts and tokens that differ."""
    sentences = []
    for line, length in enumerate(lengths, first_line):
        tokens = tuple(f"w{line}é{position}" for position in range(length))
        sentences.append(
            Sentence(id=f"{source}:{line}", tokens=tokens, text=" ".join(tokens), source=source, line=line)
        )
    return sentences


def features_of(sentence: Sentence, column: Column, dtype: StoredDtype) -> NDArray[Any]:
    """The vectors that stand in test stores for a sentence: random numbers that its id and the column determine."""
    seed = list(f"{column.name} {sentence.id}".encode())
    rows = 1 if column.rows == "sentence" else len(sentence.tokens)
    return np.random.default_rng(seed).normal(size=(rows, column.width)).astype(dtype)


def write_shard(
    path: Path,
    sentences: Sequence[Sentence],
    *,
    columns: Sequence[Column],
    shard_format: ShardFormat,
    dtype: StoredDtype = "float32",
    batches: Sequence[Sequence[int]] | None = None,
    failed: Sequence[int] = (),
) -> None:
    """Writes a shard whose vectors are `features_of`, in batches of rows in any order (one of all rows by default)."""
    with create_shard(path, shard_format=shard_format, columns=columns, dtype=dtype, sentences=sentences) as writer:
        for row in failed:
            writer.fail(row)
        for batch in batches if batches is not None else [[row for row in range(len(sentences)) if row not in failed]]:
            values = {
                column.name: np.concatenate(
                    [np.empty((0, column.width), dtype), *(features_of(sentences[row], column, dtype) for row in batch)]
                )
                for column in columns
            }
            writer.write(batch, values)
