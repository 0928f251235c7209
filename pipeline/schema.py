"""The on-disk format of a feature store, stated once: names, columns, types and the index.

A store is a folder:

    plan.json                     fingerprint, options and shard list of the job; written first, never changed
    tasks/00012.parquet           the parsed sentences of a shard; removed when the store is complete
    shards/00012-<digest8>.h5     one shard (or .parquet), named by the start of its SHA-256; whole or absent
    receipts/00012.json           what was computed, where and how fast; the only place for times and hosts
    failures/00012.jsonl          only if any: the sentences of a shard that could not be encoded, and why
    index.npy                     rows of INDEX_DTYPE sorted by id hash, for look-up by id
    manifest.json                 written last; readers accept only what it lists

An HDF5 shard holds, for its `sentences` in document order and the `tokens` of all of them in a row:

    columns/<name>      (tokens, width) for token columns, (sentences, width) for sentence columns, contiguous
    offsets             (sentences + 1) int64; sentence r has the token rows offsets[r] up to offsets[r + 1]
    status              (sentences) uint8, one of STATUS
    line                (sentences) int64
    id/bytes, id/offsets                one UTF-8 byte array, (sentences + 1) int64 offsets into it
    source/bytes, source/offsets        the same
    text/bytes, text/offsets            the same; text/present (sentences) uint8 is 0 where there is no text
    token/bytes, token/offsets          the same, (tokens + 1) offsets

A span column has (spans, width) in `columns/<name>`, and beside it stand

    span/offsets            (sentences + 1) int64; sentence r has the spans span/offsets[r] up to span/offsets[r + 1]
    span/start, span/end    (spans) int64; the tokens from start up to end, counted from 0 within their sentence

A Parquet shard has one row a sentence: `id`, `text`, `tokens`, `source`, `line`, `status`, and each column under its
name as a flat list of tokens x width numbers (sentence columns: width numbers; span columns: spans x width numbers, and
beside them `spans`, a flat list of start, end, start, end, ...).

Both carry SHARD_ATTRIBUTE, JSON that lists the columns as the manifest does: an attribute of the HDF5 root, a key of
the Parquet schema's metadata. Numbers are little-endian. A failed sentence and one without tokens keep their rows: the
vectors of the first are zero, the second has none (and zero in a sentence column).
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self, get_args

import numpy as np

from pipeline.errors import ConfigError, StoreError

FORMAT_VERSION = 1

PLAN = "plan.json"
MANIFEST = "manifest.json"
INDEX = "index.npy"
LOCK = "lock.json"
LOCKS = "locks"
TASKS = "tasks"
SHARDS = "shards"
RECEIPTS = "receipts"
FAILURES = "failures"

ShardFormat = Literal["hdf5", "parquet"]
SUFFIX: dict[str, str] = {"hdf5": ".h5", "parquet": ".parquet"}

StoredDtype = Literal["float32", "float16"]

STATUS_OK = 0
STATUS_FAILED = 1
STATUS = {STATUS_OK: "ok", STATUS_FAILED: "failed"}

RowAxis = Literal["token", "sentence", "span"]
Direction = Literal["none", "forward", "backward", "both"]

SHARD_ATTRIBUTE = "elmo-features"

INDEX_DTYPE = np.dtype([("hash", "<u8"), ("shard", "<u4"), ("row", "<u4")])


def task_name(shard: int) -> str:
    """The task file of a shard, relative to the store."""
    return f"{TASKS}/{shard:05d}.parquet"


def shard_name(shard: int, sha256: str, shard_format: str) -> str:
    """The file of a shard, relative to the store; its digest makes two attempts unable to clash."""
    return f"{SHARDS}/{shard:05d}-{sha256[:8]}{SUFFIX[shard_format]}"


def receipt_name(shard: int) -> str:
    """The receipt of a shard, relative to the store."""
    return f"{RECEIPTS}/{shard:05d}.json"


def failures_name(shard: int) -> str:
    """The list of failed sentences of a shard, relative to the store."""
    return f"{FAILURES}/{shard:05d}.jsonl"


def id_hash(sentence_id: str) -> int:
    """The 64-bit hash of an id in the index: BLAKE2b of its UTF-8 bytes, 8 bytes read as little-endian."""
    return int.from_bytes(hashlib.blake2b(sentence_id.encode("utf-8"), digest_size=8).digest(), "little")


@dataclass(frozen=True, kw_only=True, slots=True)
class Column:
    """One column of features.

    Attributes:
        name: Raw representations of a biLM are `token`, `forward_1`, `backward_1`, ...
        rows: What a row stands for.
        width: Numbers a row.
        layer: The published layer number (0 is the token vector); None for what is no layer.
        direction: `none` for a context-free vector, `both` where directions are joined.
        derived: How the column was computed from raw ones, in words; None for a raw representation.
    """

    name: str
    rows: RowAxis = "token"
    width: int
    layer: int | None
    direction: Direction
    derived: str | None = None

    def __post_init__(self) -> None:
        if not self.name or not self.name.replace("_", "").isalnum() or not self.name.isascii():
            raise ConfigError(f"column name {self.name!r}: use ASCII letters, digits and underscores")
        if self.rows not in get_args(RowAxis) or self.direction not in get_args(Direction):
            raise ConfigError(f"column {self.name}: rows {self.rows!r} or direction {self.direction!r} is unknown")
        if self.width < 1:
            raise ConfigError(f"column {self.name}: width {self.width} is below 1")

    def to_json(self) -> dict[str, Any]:
        """The column as the manifest lists it."""
        return {
            "name": self.name,
            "rows": self.rows,
            "width": self.width,
            "layer": self.layer,
            "direction": self.direction,
            "derived": self.derived,
        }

    @classmethod
    def from_json(cls, value: Any) -> Self:
        """The column that `to_json` described; unknown keys are ignored.

        Raises:
            StoreError: A key is missing or has a value of the wrong kind.
        """
        try:
            return cls(**{key: value[key] for key in cls.__slots__})
        except (TypeError, KeyError, ConfigError) as error:
            raise StoreError(f"a column of the manifest cannot be read: {value!r} ({error})") from None


def describe_columns(columns: Sequence[Column]) -> str:
    """The value of SHARD_ATTRIBUTE."""
    return json.dumps({"columns": [column.to_json() for column in columns], "format_version": FORMAT_VERSION})
