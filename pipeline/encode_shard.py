"""One unit of work: a planned shard is read, computed, written and committed, all inside one call."""

import json
import os
import socket
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from pipeline.batching import batches_by_length, batches_in_order
from pipeline.config import EncodeConfig, StoreConfig
from pipeline.derivations import Selection
from pipeline.errors import StorageError
from pipeline.guarding import GuardedEncoder, Piece
from pipeline.planning import Plan
from pipeline.receipts import Receipt, file_sha256, valid_receipt, write_receipt
from pipeline.records import Sentence
from pipeline.scanning import PlannedShard
from pipeline.schema import failures_name, shard_name
from pipeline.shards import ShardWriter, create_shard
from pipeline.storage import Folder, explain
from pipeline.tasks import read_task


def encode_shard(
    folder: Folder,
    plan: Plan,
    shard: PlannedShard,
    encoder: GuardedEncoder,
    *,
    selection: Selection,
    encode: EncodeConfig,
    store: StoreConfig,
) -> Receipt:
    """Computes a shard and commits it: the data under a name made from its digest, then the receipt.

    A shard with a valid receipt is left as it is. Two workers on one shard do the same work twice and clash nowhere.

    Returns:
        The receipt, new or found.

    Raises:
        StorageError: The task cannot be read or the shard cannot be written.
        DeviceLostError, TooManyFailuresError, CarriedStateError: As `GuardedEncoder.encode`.
    """
    found = valid_receipt(folder, plan, shard)
    if found is not None:
        return found
    started = time.monotonic()
    sentences = read_task(folder, shard.number)
    with folder.staged(shard_name(shard.number, "", store.shard_format)) as path:
        outcome = _write_shard(path, sentences, encoder, selection=selection, encode=encode, store=store)
        digest = _synced_sha256(path)
        name = shard_name(shard.number, digest, store.shard_format)
        size = path.stat().st_size
        folder.publish(path, name)
    if outcome.failures:
        lines = (json.dumps(failure, ensure_ascii=False, sort_keys=True) for failure in outcome.failures)
        folder.write_bytes(failures_name(shard.number), "".join(f"{line}\n" for line in lines).encode())
    receipt = Receipt(
        shard=shard.number,
        fingerprint=plan.fingerprint,
        file=name,
        sha256=digest,
        bytes=size,
        sentences=len(sentences),
        tokens=sum(len(sentence.tokens) for sentence in sentences),
        failed=len(outcome.failures),
        counts=dict(sorted(outcome.counts.items())),
        seconds=time.monotonic() - started,
        encode_seconds=outcome.encode_seconds,
        host=socket.gethostname(),
        pid=os.getpid(),
        runtime=dict(encoder.runtime),
        finished=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    write_receipt(folder, receipt)
    return receipt


@dataclass(kw_only=True)
class _Outcome:
    counts: Counter[str] = field(default_factory=Counter)
    failures: list[dict[str, str | int]] = field(default_factory=list)
    encode_seconds: float = 0.0


def _write_shard(
    path: Path,
    sentences: Sequence[Sentence],
    encoder: GuardedEncoder,
    *,
    selection: Selection,
    encode: EncodeConfig,
    store: StoreConfig,
) -> _Outcome:
    outcome = _Outcome()
    failures: dict[int, dict[str, str | int]] = {}
    with create_shard(
        path, shard_format=store.shard_format, columns=selection.stored, dtype=store.dtype, sentences=sentences
    ) as writer:
        for piece in _pieces(sentences, encoder, encode, outcome):
            if piece.encoded is None:
                problems = [piece]
            else:
                outcome.counts.update(piece.encoded.counts)
                unstorable = _store(writer, piece, sentences, selection, store)
                reason = f"a value is not finite, or overflows {store.dtype}"
                problems = [encoder.failed(sentences, position, reason) for position in unstorable]
            for problem in problems:
                (position,) = problem.positions
                writer.fail(position)
                failures[position] = _failure(sentences[position], str(problem.reason))
            del piece  # its features, before the next are computed
    outcome.failures = [failures[position] for position in sorted(failures)]
    return outcome


def _pieces(
    sentences: Sequence[Sentence], encoder: GuardedEncoder, encode: EncodeConfig, outcome: _Outcome
) -> Iterator[Piece]:
    """All pieces of a shard, with the time that the encoder took added to the outcome."""
    if encode.batch_sentences is None:
        batches = batches_by_length([len(s.tokens) for s in sentences], batch_tokens=encode.batch_tokens)
    else:
        batches = batches_in_order(len(sentences), batch_sentences=encode.batch_sentences)
    for batch in batches:
        before = time.monotonic()
        for piece in encoder.encode(sentences, batch):
            outcome.encode_seconds += time.monotonic() - before
            yield piece
            del piece  # its features, before the next are computed
            before = time.monotonic()


def _store(
    writer: ShardWriter, piece: Piece, sentences: Sequence[Sentence], selection: Selection, store: StoreConfig
) -> list[int]:
    """Writes the features of a piece; returns the positions left out because a value cannot be stored."""
    assert piece.encoded is not None
    chosen = [sentences[position] for position in piece.positions]
    lengths = [len(sentence.tokens) for sentence in chosen]
    spans = [sentence.spans for sentence in chosen]
    # numpy converts, since HDF5's own conversion to half floats has been wrong; an overflow is found below.
    with np.errstate(over="ignore"):
        values = {
            name: array.astype(store.dtype, copy=False)
            for name, array in selection.derive(piece.encoded.columns, lengths, spans).items()
        }
    good = np.ones(len(chosen), dtype=bool)
    counts = {"token": lengths, "sentence": [1] * len(chosen), "span": [len(each) for each in spans]}
    owners = {rows: np.repeat(np.arange(len(chosen)), count) for rows, count in counts.items()}
    for column in selection.stored:
        finite = np.isfinite(values[column.name])
        if not finite.all():
            good[owners[column.rows][~finite.all(axis=1)]] = False
    if not good.all():
        values = {column.name: values[column.name][good[owners[column.rows]]] for column in selection.stored}
    writer.write([position for position, ok in zip(piece.positions, good, strict=True) if ok], values)
    return [position for position, ok in zip(piece.positions, good, strict=True) if not ok]


def _synced_sha256(path: Path) -> str:
    """The SHA-256 of a file, computed while the file is brought to the disk; both are done at the end."""
    with path.open("rb") as file, ThreadPoolExecutor(1) as executor:
        synced = executor.submit(os.fsync, file.fileno())
        digest = file_sha256(path)
        try:
            synced.result()
        except OSError as error:
            raise StorageError(f"cannot write {path}: {explain(error)}") from error
    return digest


def _failure(sentence: Sentence, reason: str) -> dict[str, str | int]:
    return {"id": sentence.id, "source": sentence.source, "line": sentence.line, "reason": reason}
