"""The manifest: what a complete store holds. Written last; readers go by it alone."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Self, cast, get_args

from pipeline.errors import DamageError, StoreError
from pipeline.schema import FORMAT_VERSION, MANIFEST, PLAN, Column, ShardFormat, StoredDtype, shard_name
from pipeline.sealed import seal, unseal
from pipeline.storage import Folder


@dataclass(frozen=True, kw_only=True, slots=True)
class ShardEntry:
    """One shard, in document order: its file relative to the store, that file's digest and length, and its counts."""

    file: str
    sha256: str
    bytes: int
    sentences: int
    tokens: int
    failed: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Manifest:
    """What a store holds; no times, hosts or devices, so that the same job always writes the same bytes.

    Attributes:
        fingerprint: Of all settings and inputs.
        settings: Those that the fingerprint covers.
        shard_format: Of all shards.
        dtype: Of all columns.
        columns: Those stored, in order.
        shards: In document order.
        sentences: In all shards, failed ones included.
        tokens: In all shards.
        failed: Sentences that are there but could not be encoded.
        counts: Further counts of the input and of what the encoder did to it.
        index_sha256: Of `index.npy`.
        index_bytes: Of `index.npy`.
    """

    fingerprint: str
    settings: dict[str, Any]
    shard_format: ShardFormat
    dtype: StoredDtype
    columns: tuple[Column, ...]
    shards: tuple[ShardEntry, ...]
    sentences: int
    tokens: int
    failed: int
    counts: dict[str, int]
    index_sha256: str
    index_bytes: int

    def __post_init__(self) -> None:
        if self.shard_format not in get_args(ShardFormat) or self.dtype not in get_args(StoredDtype):
            raise ValueError(f"format {self.shard_format!r} or dtype {self.dtype!r} is unknown")
        for number, shard in enumerate(self.shards):
            if shard.file != shard_name(number, shard.sha256, self.shard_format):
                raise ValueError(f"shard {number} has the file {shard.file!r}, not named by its number and digest")
        for name in ("sentences", "tokens", "failed"):
            if getattr(self, name) != sum(getattr(shard, name) for shard in self.shards):
                raise ValueError(f"the {name} of the shards do not add up to {getattr(self, name)}")

    def to_bytes(self) -> bytes:
        """The content of `manifest.json`."""
        value = {name: getattr(self, name) for name in self.__slots__}
        value["columns"] = [column.to_json() for column in self.columns]
        value["shards"] = [asdict(shard) for shard in self.shards]
        return seal({"format_version": FORMAT_VERSION, **value})

    @classmethod
    def from_bytes(cls, data: bytes, name: str) -> Self:
        """The manifest that `to_bytes` wrote; unknown keys are ignored.

        Raises:
            StoreError: It is of a newer format.
            DamageError: It was cut or altered.
        """
        _refuse_newer(data, name)
        value = unseal(data, name)
        try:
            values = {key: value[key] for key in cls.__slots__}
            values["columns"] = tuple(Column.from_json(column) for column in value["columns"])
            values["shards"] = tuple(_entry(shard) for shard in value["shards"])
            return cls(**values)
        except (KeyError, TypeError, ValueError, StoreError) as error:
            raise DamageError(f"{name} is damaged: {error}") from None

    @classmethod
    def read(cls, folder: Folder) -> Self:
        """The manifest of a store.

        Raises:
            StoreError: The folder holds no store, one that is not finished, or one of a newer format.
            DamageError: It was cut or altered.
            StorageError: It cannot be read.
        """
        if not folder.exists(MANIFEST):
            if folder.exists(PLAN):
                raise StoreError(
                    f"{folder.url}: this store is not finished, it has no {MANIFEST}; run the same dump again"
                )
            raise StoreError(f"{folder.url}: no feature store here, it has no {MANIFEST}")
        return cls.from_bytes(folder.read_bytes(MANIFEST), f"{folder.url}/{MANIFEST}")


def _entry(value: Mapping[str, Any]) -> ShardEntry:
    return ShardEntry(**{field.name: value[field.name] for field in fields(ShardEntry)})


def _refuse_newer(data: bytes, name: str) -> None:
    """A newer format may be sealed in another way, so this comes before the seal."""
    try:
        version = cast(Any, json.loads(data))["format_version"]
    except (ValueError, KeyError, TypeError):
        return
    if isinstance(version, int) and version > FORMAT_VERSION:
        raise StoreError(
            f"{name} has format version {version}; this installation reads up to {FORMAT_VERSION}: "
            "update elmo-features to read it"
        )
