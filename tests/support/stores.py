"""Shards and stores with known contents, made without a model."""

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray

from pipeline.commit import commit
from pipeline.config import StoreConfig
from pipeline.manifest import Manifest
from pipeline.planning import Plan
from pipeline.reader import FeatureStore
from pipeline.receipts import Receipt, file_sha256, write_receipt
from pipeline.records import Sentence
from pipeline.scanning import PlannedShard
from pipeline.schema import FORMAT_VERSION, PLAN, Column, ShardFormat, StoredDtype, failures_name, shard_name
from pipeline.shards import create_shard
from pipeline.storage import Folder

Vectors = Callable[[Sentence, Column], NDArray[Any]]
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
    rows = {"token": len(sentence.tokens), "sentence": 1, "span": len(sentence.spans)}
    return np.random.default_rng(seed).normal(size=(rows[column.rows], column.width)).astype(dtype)


def with_spans(sentences: Sequence[Sentence]) -> list[Sentence]:
    """The sentences with every token as a span, and the whole of longer ones as another."""
    return [
        replace(
            sentence,
            spans=(
                *((token, token + 1) for token in range(len(sentence.tokens))),
                *(((0, len(sentence.tokens)),) if len(sentence.tokens) > 1 else ()),
            ),
        )
        for sentence in sentences
    ]


def published(sentence: Sentence, columns: Sequence[Column]) -> NDArray[Any]:
    """The layers of a sentence, (layers, tokens, 2 x width), of a test store with the columns of a two-layer biLM."""
    vectors = {column.name: features_of(sentence, column, "float32") for column in columns}
    pairs = [("token", "token"), ("forward_1", "backward_1"), ("forward_2", "backward_2")]
    return np.stack([np.concatenate([vectors[left], vectors[right]], axis=1) for left, right in pairs])


def read_all(store: FeatureStore) -> None:
    """Reads every good sentence five times in random order, and compares; here, so that spawned processes find it."""
    for _ in range(5):
        for position in np.random.default_rng(os.getpid()).permutation(store.positions()).tolist():
            features = store.at(position)
            np.testing.assert_array_equal(features.layers(), published(features.sentence, list(store.columns.values())))


def write_shard(
    path: Path,
    sentences: Sequence[Sentence],
    *,
    columns: Sequence[Column],
    shard_format: ShardFormat,
    dtype: StoredDtype = "float32",
    batches: Sequence[Sequence[int]] | None = None,
    failed: Sequence[int] = (),
    vectors: Vectors | None = None,
) -> None:
    """Writes a shard of given vectors or `features_of`, in batches of rows in any order, by default in one."""
    vectors = vectors or (lambda sentence, column: features_of(sentence, column, dtype))
    with create_shard(path, shard_format=shard_format, columns=columns, dtype=dtype, sentences=sentences) as writer:
        for row in failed:
            writer.fail(row)
        for batch in batches if batches is not None else [[row for row in range(len(sentences)) if row not in failed]]:
            values = {
                column.name: np.concatenate(
                    [np.empty((0, column.width), dtype), *(vectors(sentences[row], column) for row in batch)]
                )
                for column in columns
            }
            writer.write(batch, values)


class StoreSettings(TypedDict, total=False):
    """What a test may choose of a store; see `write_finished_shards`."""

    shard_format: ShardFormat
    dtype: StoredDtype
    layers: str
    failed: Sequence[str]
    vectors: Vectors | None


def write_store(
    folder: Folder,
    shards: Sequence[Sequence[Sentence]],
    *,
    columns: Sequence[Column],
    **settings: Unpack[StoreSettings],
) -> Manifest:
    """Writes a complete store of given vectors or `features_of`; the sentences whose ids are listed have failed."""
    return commit(folder, write_finished_shards(folder, shards, columns=columns, **settings))


def write_finished_shards(
    folder: Folder,
    shards: Sequence[Sequence[Sentence]],
    *,
    columns: Sequence[Column],
    shard_format: ShardFormat = "hdf5",
    dtype: StoredDtype = "float32",
    layers: str = "all",
    failed: Sequence[str] = (),
    vectors: Vectors | None = None,
) -> Plan:
    """Writes what a dump leaves just before its last step: plan, shards, receipts and lists of failures."""
    planned = [
        PlannedShard(number=number, sentences=len(sentences), tokens=sum(len(s.tokens) for s in sentences))
        for number, sentences in enumerate(shards)
    ]
    settings = {
        "format_version": FORMAT_VERSION,
        "inputs": [],
        "store": asdict(StoreConfig(shard_format=shard_format, dtype=dtype, layers=layers)),
        "columns": [column.to_json() for column in columns],
    }
    plan = Plan(settings=settings, shards=tuple(planned), counts={"blank_lines": 0})
    folder.write_bytes(PLAN, plan.to_json())
    for shard, sentences in zip(planned, shards, strict=True):
        rows = [row for row, sentence in enumerate(sentences) if sentence.id in failed]
        with folder.staged(shard_name(shard.number, "", shard_format)) as path:
            write_shard(
                path,
                sentences,
                columns=columns,
                shard_format=shard_format,
                dtype=dtype,
                failed=rows,
                vectors=vectors,
            )
            digest, size = file_sha256(path), path.stat().st_size
            folder.publish(path, shard_name(shard.number, digest, shard_format))
        if rows:
            lines = [json.dumps({"id": sentences[row].id, "reason": "made to fail"}) for row in rows]
            folder.write_bytes(failures_name(shard.number), "".join(f"{line}\n" for line in lines).encode())
        write_receipt(folder, make_receipt(plan, shard, sha256=digest, size=size, failed=len(rows)))
    return plan


def make_receipt(plan: Plan, shard: PlannedShard, *, sha256: str, size: int, failed: int = 0) -> Receipt:
    """The receipt of a shard of `write_finished_shards`."""
    return Receipt(
        shard=shard.number,
        fingerprint=plan.fingerprint,
        file=shard_name(shard.number, sha256, plan.settings["store"]["shard_format"]),
        sha256=sha256,
        bytes=size,
        sentences=shard.sentences,
        tokens=shard.tokens,
        failed=failed,
        counts={"truncated_tokens": 1},
        seconds=1.5,
        encode_seconds=1.25,
        host="here",
        pid=17,
        runtime={"device": "cpu"},
        finished="2024-01-01T00:00:00+00:00",
    )
