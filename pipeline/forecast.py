"""What a dump will take, before it is begun."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pipeline.config import DumpConfig, StoreConfig
from pipeline.formats.streams import InputFile
from pipeline.scanning import CorpusScan, PlannedShard
from pipeline.schema import Column

# Beside vectors and strings, in bytes, as measured: offsets, status, line and index row of a sentence, the offset of
# a token, the bounds of a span, and the structure, receipt and manifest entry of a shard.
_SENTENCE_BYTES = 58
_TOKEN_BYTES = 8
_SPAN_BYTES = 16
_SHARD_BYTES: dict[str, int] = {"hdf5": 21_000, "parquet": 7_000}


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """The size of a dump.

    Attributes:
        shards: How many there will be.
        sentences: Of the corpus, blank ones included.
        tokens: Of the corpus.
        vector_bytes: Of all columns, exact.
        store_bytes: Of the finished store, an estimate.
        counts: Of the corpus, as `CorpusScan` counts.
    """

    shards: int
    sentences: int
    tokens: int
    vector_bytes: int
    store_bytes: int
    counts: Mapping[str, int]

    @classmethod
    def of(
        cls,
        shards: Sequence[PlannedShard],
        counts: Mapping[str, int],
        *,
        config: StoreConfig,
        columns: Sequence[Column],
    ) -> "Forecast":
        """The size of a dump whose corpus has been read, for example of a plan.

        Args:
            shards: All of them.
            counts: With `string_bytes`, and `spans` if there are any.
            config: Of the store.
            columns: All that is stored.
        """
        sentences = sum(shard.sentences for shard in shards)
        tokens = sum(shard.tokens for shard in shards)
        rows = {"token": tokens, "sentence": sentences, "span": counts.get("spans", 0)}
        vector_bytes = sum(rows[column.rows] * column.width for column in columns) * np.dtype(config.dtype).itemsize
        other = (
            counts.get("string_bytes", 0)
            + sentences * _SENTENCE_BYTES
            + tokens * _TOKEN_BYTES
            + rows["span"] * _SPAN_BYTES
            + len(shards) * _SHARD_BYTES[config.shard_format]
        )
        return cls(
            shards=len(shards),
            sentences=sentences,
            tokens=tokens,
            vector_bytes=vector_bytes,
            store_bytes=vector_bytes + other,
            counts=dict(counts),
        )


def forecast(inputs: Sequence[InputFile], *, config: DumpConfig, columns: Sequence[Column]) -> Forecast:
    """The size of a dump, by a pass over the corpus that checks all a plan checks and writes nothing.

    Args:
        inputs: As `list_inputs` gives them.
        config: All settings.
        columns: All that is stored, derived ones included.

    Raises:
        CorpusError: Something in the corpus is refused; see `CorpusScan`.
    """
    scan = CorpusScan(inputs, config)
    for sentence in scan:
        scan.shard_of(sentence)
    return Forecast.of(scan.shards(), scan.counts, config=config.store, columns=columns)
