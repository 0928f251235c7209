"""The last step of a dump: from finished shards to a store that can be opened."""

import re
from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Any

from pipeline.errors import IncompleteError
from pipeline.index import build_index, write_index
from pipeline.manifest import Manifest, ShardEntry
from pipeline.parallel import for_each
from pipeline.planning import Plan
from pipeline.receipts import Receipt, file_sha256, valid_receipt
from pipeline.schema import INDEX, MANIFEST, SHARDS, TASKS, Column
from pipeline.shards import open_shard
from pipeline.storage import Folder

_NAMED_AT_MOST = 10
_START_BYTES = 1 << 17


def commit(folder: Folder, plan: Plan) -> Manifest:
    """Completes a store: index, then manifest, then the removal of what only the job needed.

    Doing it again, also after a crash at any point, ends with the same bytes.

    Returns:
        The manifest, as written.

    Raises:
        IncompleteError: Planned shards have no valid receipt; names them.
        StoreError: A shard cannot be read.
        StorageError: Something cannot be written.
    """
    receipts = _all_receipts(folder, plan)
    columns = tuple(Column.from_json(column) for column in plan.settings["columns"])
    stored = plan.settings["store"]
    index = build_index(_ids(folder, receipts, columns, stored), sentences=plan.sentences)
    with folder.staged(INDEX) as path:
        write_index(path, index)
        index_sha256, index_bytes = file_sha256(path), path.stat().st_size
        folder.publish(path, INDEX)
    counts = Counter(plan.counts)
    for receipt in receipts:
        counts.update(receipt.counts)
    manifest = Manifest(
        fingerprint=plan.fingerprint,
        settings=plan.settings,
        shard_format=stored["shard_format"],
        dtype=stored["dtype"],
        columns=columns,
        shards=tuple(
            ShardEntry(
                file=receipt.file,
                sha256=receipt.sha256,
                bytes=receipt.bytes,
                sentences=receipt.sentences,
                tokens=receipt.tokens,
                failed=receipt.failed,
            )
            for receipt in receipts
        ),
        sentences=plan.sentences,
        tokens=plan.tokens,
        failed=sum(receipt.failed for receipt in receipts),
        counts=dict(counts),
        index_sha256=index_sha256,
        index_bytes=index_bytes,
    )
    _remove_abandoned(folder, receipts)
    folder.write_bytes(MANIFEST, manifest.to_bytes())
    folder.remove_all(TASKS)
    return manifest


def _all_receipts(folder: Folder, plan: Plan) -> list[Receipt]:
    found = list(for_each(folder, partial(valid_receipt, folder, plan), plan.shards))
    missing = [shard.number for shard, receipt in zip(plan.shards, found, strict=True) if receipt is None]
    if missing:
        named = ", ".join(map(str, missing[:_NAMED_AT_MOST])) + (", ..." if len(missing) > _NAMED_AT_MOST else "")
        raise IncompleteError(
            f"{folder.url}: {len(missing)} of {len(plan.shards)} shards are not finished ({named}); "
            "run the same dump again to complete them"
        )
    return [receipt for receipt in found if receipt is not None]


def _ids(
    folder: Folder, receipts: list[Receipt], columns: tuple[Column, ...], stored: dict[str, Any]
) -> Iterator[list[str]]:
    def ids(receipt: Receipt) -> list[str]:
        with folder.open(receipt.file) as file:
            if not folder.is_local:
                # Ids stand near the start of a shard: in one request, and not under the lock that HDF5 reads with.
                file.read(_START_BYTES)
                file.seek(0)
            return open_shard(
                file,
                name=f"{folder.url}/{receipt.file}",
                shard_format=stored["shard_format"],
                columns=columns,
                dtype=stored["dtype"],
            ).ids()

    return for_each(folder, ids, receipts)


def _remove_abandoned(folder: Folder, receipts: list[Receipt]) -> None:
    """Removes shard files that no receipt names: their worker died before it wrote one, or the plan was rerun."""
    named = {receipt.file for receipt in receipts}
    for name in folder.list(SHARDS):
        if name not in named and re.fullmatch(rf"{SHARDS}/[0-9]{{5,}}-[0-9a-f]{{8}}\.(h5|parquet)", name):
            folder.remove(name)
