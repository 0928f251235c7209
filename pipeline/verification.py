"""Checking a store against itself: every file, byte for byte, and what the bytes mean."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import DamageError, PipelineError
from pipeline.index import Index, build_index
from pipeline.manifest import Manifest, ShardEntry
from pipeline.planning import Plan
from pipeline.receipts import read_receipt
from pipeline.schema import (
    FAILURES,
    INDEX,
    MANIFEST,
    PLAN,
    RECEIPTS,
    SHARDS,
    STATUS,
    STATUS_FAILED,
    TASKS,
    Column,
    failures_name,
    receipt_name,
)
from pipeline.sealed import sha256_of
from pipeline.shards import ShardReader, open_shard
from pipeline.storage import Folder

# Numbers of a column that are looked at in one go.
_BLOCK_VALUES = 2**22


@dataclass(kw_only=True)
class Report:
    """What `verify` found.

    Attributes:
        problems: One line each, beginning with the name of the file; none for a store that is as it was written.
        shards: Checked.
        sentences: Of the sound shards.
        tokens: Of the sound shards.
        failed: Sentences of the sound shards that could not be encoded; not a problem.
        bytes: Read.
    """

    problems: list[str] = field(default_factory=list)
    shards: int = 0
    sentences: int = 0
    tokens: int = 0
    failed: int = 0
    bytes: int = 0

    @property
    def ok(self) -> bool:
        """Whether there is no problem."""
        return not self.problems


def verify(folder: Folder, *, progress: Callable[[int, int], None] | None = None) -> Report:
    """Checks all files of a store: digests, counts, ids, shapes, finiteness, and that none is missing or left over.

    Args:
        folder: The store.
        progress: Called with the number of shards done and of all shards after each.

    Returns:
        The report; damage is a problem in it, not an exception.

    Raises:
        StoreError: There is no finished store in the folder, or one of a newer format.
    """
    report = Report()
    try:
        manifest = Manifest.read(folder)
    except DamageError as error:
        report.problems.append(_without_url(folder, error))
        return report
    ids: list[NDArray[Any]] = []
    for number, entry in enumerate(manifest.shards):
        report.problems += _shard_problems(folder, manifest, number, entry, report, ids)
        report.problems += _receipt_problems(folder, manifest, number, entry)
        if progress is not None:
            progress(number + 1, len(manifest.shards))
    report.problems += _index_problems(folder, manifest, ids)
    report.problems += _plan_problems(folder, manifest)
    report.problems += _surplus_problems(folder, manifest)
    return report


def _shard_problems(
    folder: Folder, manifest: Manifest, number: int, entry: ShardEntry, report: Report, indexes: list[NDArray[Any]]
) -> list[str]:
    """The problems of a shard; adds its index to `indexes`, and its counts to the report, if it has none."""
    name = entry.file
    if not folder.exists(name):
        return [f"{name}: missing"]
    size = folder.size(name)
    if size != entry.bytes:
        return [f"{name}: has {size} bytes, the manifest says {entry.bytes}"]
    with folder.open(name) as file:
        if sha256_of(file) != entry.sha256:
            return [f"{name}: the content was altered, its SHA-256 is not the one in the manifest"]
        report.bytes += size
        try:
            shard = open_shard(
                file,
                name=name,
                shard_format=manifest.shard_format,
                columns=manifest.columns,
                dtype=manifest.dtype,
            )
            problems = [f"{name}: {problem}" for problem in _content_problems(shard, manifest.columns, entry)]
            problems += _failure_problems(folder, number, shard)
            ids = shard.ids()
        except PipelineError as error:
            return [_without_url(folder, error)]
    index = build_index([ids], sentences=len(ids))
    index["shard"] = number
    indexes.append(index)
    report.shards += 1
    report.sentences += len(shard)
    report.tokens += int(shard.offsets[-1])
    report.failed += int((shard.status == STATUS_FAILED).sum())
    return problems


def _content_problems(shard: ShardReader, columns: tuple[Column, ...], entry: ShardEntry) -> Iterator[str]:
    found = {
        "sentences": len(shard),
        "tokens": int(shard.offsets[-1]),
        "failed": int((shard.status == STATUS_FAILED).sum()),
    }
    for what, count in found.items():
        if count != getattr(entry, what):
            yield f"holds {count} {what}, the manifest says {getattr(entry, what)}"
    if not np.isin(shard.status, list(STATUS)).all():
        yield f"has a status other than {', '.join(map(str, STATUS))}"
    for row, tokens in enumerate(np.diff(shard.offsets).tolist()):
        sentence = shard.sentence(row)
        if len(sentence.tokens) != tokens:
            yield f"sentence {sentence.id!r} lists {len(sentence.tokens)} tokens, but has {tokens} rows"
        if not all(0 <= start < end <= tokens for start, end in sentence.spans):
            yield f"sentence {sentence.id!r} has {tokens} tokens, but the spans {sentence.spans!r:.80}"
    # A vector of zeros is an answer where no context is used, such as that of an unknown word in a table.
    contextual = any(column.direction != "none" for column in columns)
    offsets = {rows: shard.row_offsets(rows) for rows in {column.rows for column in columns}}
    for start, stop in _blocks(
        [shard.offsets, *offsets.values()], max((column.width for column in columns), default=1)
    ):
        nonzero = np.zeros(stop - start, dtype=bool)
        has_tokens = np.diff(shard.offsets[start : stop + 1]) > 0
        has_rows = np.zeros(stop - start, dtype=bool)
        for column in columns:
            values = shard.block(column.name, start, stop)
            lengths = np.diff(offsets[column.rows][start : stop + 1])
            rows = np.repeat(np.arange(stop - start), lengths)
            has_rows |= lengths > 0
            if len(values) != len(rows):
                yield f"column {column.name} has {len(values)} rows for {len(rows)}"
                continue
            unfit = rows[~np.isfinite(values).all(axis=1)]
            if len(unfit):
                yield f"column {column.name} of sentence {shard.id(start + int(unfit[0]))!r} is not finite"
            nonzero[rows[(values != 0).any(axis=1)]] = True
        failed = shard.status[start:stop] == STATUS_FAILED
        for row in np.flatnonzero(nonzero & failed).tolist():
            yield f"sentence {shard.id(start + row)!r} has failed, but has vectors that are not zero"
        for row in np.flatnonzero(~nonzero & ~failed & has_tokens & has_rows).tolist() if contextual else ():
            yield f"sentence {shard.id(start + row)!r} has nothing but zeros"


def _blocks(row_offsets: Sequence[NDArray[np.int64]], width: int) -> Iterator[tuple[int, int]]:
    """Bounds of runs of sentences that have about `_BLOCK_VALUES` numbers a column, in order."""
    most = max(1, _BLOCK_VALUES // width)
    start, sentences = 0, len(row_offsets[0]) - 1
    while start < sentences:
        # Empty sentences are rows of sentence columns too, so a block has no more sentences than it may have rows.
        stop = min(int(np.searchsorted(offsets, offsets[start] + most, side="right")) - 1 for offsets in row_offsets)
        stop = min(max(stop, start + 1), start + most, sentences)
        yield start, stop
        start = stop


def _failure_problems(folder: Folder, number: int, shard: ShardReader) -> list[str]:
    name = failures_name(number)
    expected = [shard.id(int(row)) for row in np.flatnonzero(shard.status == STATUS_FAILED)]
    listed: list[str] = []
    if folder.exists(name):
        data = folder.read_bytes(name)
        if not data.endswith(b"\n"):
            return [f"{name}: cut short"]
        try:
            listed = [str(json.loads(line)["id"]) for line in data.splitlines()]
        except (ValueError, KeyError, TypeError):
            return [f"{name}: not a list of failures"]
    return [] if listed == expected else [f"{name}: lists other sentences than the {len(expected)} that failed"]


def _receipt_problems(folder: Folder, manifest: Manifest, number: int, entry: ShardEntry) -> list[str]:
    name = receipt_name(number)
    try:
        receipt = read_receipt(folder, number)
    except PipelineError as error:
        return [f"{name}: missing" if not folder.exists(name) else _without_url(folder, error)]
    expected = {"fingerprint": manifest.fingerprint, **{key: getattr(entry, key) for key in ShardEntry.__slots__}}
    wrong = [key for key, value in expected.items() if getattr(receipt, key) != value]
    return [f"{name}: {', '.join(wrong)} differ from the manifest"] if wrong else []


def _index_problems(folder: Folder, manifest: Manifest, indexes: list[NDArray[Any]]) -> list[str]:
    if not folder.exists(INDEX):
        return [f"{INDEX}: missing"]
    with folder.open(INDEX) as file:
        digest = sha256_of(file)
    if folder.size(INDEX) != manifest.index_bytes or digest != manifest.index_sha256:
        return [f"{INDEX}: the content was altered, its SHA-256 is not the one in the manifest"]
    try:
        index = Index(folder, sentences=manifest.sentences).rows
    except PipelineError as error:
        return [_without_url(folder, error)]
    if sum(map(len, indexes)) != len(index):
        return []  # A damaged shard is a problem of its own, and leaves nothing to compare with.
    expected = np.concatenate([index[:0], *indexes])
    expected = expected[np.argsort(expected["hash"], kind="stable")]
    return [] if np.array_equal(index, expected) else [f"{INDEX}: does not list the ids of the shards"]


def _plan_problems(folder: Folder, manifest: Manifest) -> list[str]:
    if not folder.exists(PLAN):
        return [f"{PLAN}: missing"]
    try:
        plan = Plan.read(folder)
    except PipelineError as error:
        return [_without_url(folder, error)]
    planned = [(shard.number, shard.sentences, shard.tokens) for shard in plan.shards]
    written = [(number, shard.sentences, shard.tokens) for number, shard in enumerate(manifest.shards)]
    counted = all(manifest.counts.get(name, -1) >= count for name, count in plan.counts.items())
    if plan.to_json() != folder.read_bytes(PLAN):
        return [f"{PLAN}: altered, it is not as a plan is written"]
    if plan.fingerprint != manifest.fingerprint or plan.settings != manifest.settings:
        return [f"{PLAN}: its settings are not those of the manifest"]
    if planned != written or not counted:
        return [f"{PLAN}: its shards or counts are not those of the manifest"]
    return []


def _surplus_problems(folder: Folder, manifest: Manifest) -> list[str]:
    numbers = range(len(manifest.shards))
    expected = {shard.file for shard in manifest.shards}
    expected |= {receipt_name(number) for number in numbers} | {failures_name(number) for number in numbers}
    found = [name for prefix in (SHARDS, RECEIPTS, FAILURES, TASKS) for name in folder.list(prefix)]
    known = {PLAN, MANIFEST, INDEX, SHARDS, RECEIPTS, FAILURES}
    found += [name for name in folder.top_level() if PurePosixPath(name).parts[0] not in known]
    return [f"{name}: not part of the store" for name in found if name not in expected]


def _without_url(folder: Folder, error: PipelineError) -> str:
    return str(error).removeprefix(f"{folder.url}/")
