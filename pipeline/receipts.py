"""Receipts: what was computed for a shard, where and how fast. Only they hold times, hosts and devices."""

from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Self

from pipeline.errors import DamageError, StoreError
from pipeline.planning import Plan
from pipeline.scanning import PlannedShard
from pipeline.schema import SUFFIX, receipt_name, shard_name
from pipeline.sealed import seal, sha256_of, unseal
from pipeline.storage import Folder


@dataclass(frozen=True, kw_only=True)
class Receipt:
    """The receipt of one shard.

    Attributes:
        shard: Its number.
        fingerprint: Of the plan that it was computed for.
        file: The shard's file, relative to the store.
        sha256: Of that file.
        bytes: Of that file.
        sentences: In the shard, failed ones included.
        tokens: In the shard.
        failed: Sentences that could not be encoded.
        counts: What a user should know of the input, such as `truncated_tokens`; sums over shards are in the manifest.
        seconds: From reading the task to the finished file.
        encode_seconds: The part of it spent in the encoder.
        host: Name of the machine.
        pid: Of the worker.
        runtime: Device, kernel and library versions.
        finished: When, ISO 8601 in UTC.
    """

    shard: int
    fingerprint: str
    file: str
    sha256: str
    bytes: int
    sentences: int
    tokens: int
    failed: int
    counts: dict[str, int]
    seconds: float
    encode_seconds: float
    host: str
    pid: int
    runtime: dict[str, str]
    finished: str

    @classmethod
    def from_json(cls, value: dict[str, Any], name: str) -> Self:
        """The receipt that a JSON object describes; unknown keys are ignored.

        Raises:
            DamageError: A key is missing, or the file's name is not made of the number and the digest.
        """
        try:
            receipt = cls(**{field.name: value[field.name] for field in fields(cls)})
            names = [shard_name(receipt.shard, receipt.sha256, shard_format) for shard_format in SUFFIX]
        except (KeyError, TypeError, ValueError) as error:
            raise DamageError(f"{name} is damaged: not a receipt ({error!r})") from None
        if receipt.file not in names:
            raise DamageError(f"{name} is damaged: the file {receipt.file!r} is not named by its number and digest")
        return receipt


def file_sha256(path: Path) -> str:
    """The SHA-256 of a file in hexadecimal."""
    with path.open("rb") as file:
        return sha256_of(file)


def write_receipt(folder: Folder, receipt: Receipt) -> None:
    """Writes a receipt; the shard's file stands complete by then."""
    folder.write_bytes(receipt_name(receipt.shard), seal(asdict(receipt)))


def read_receipt(folder: Folder, shard: int) -> Receipt:
    """The receipt of a shard.

    Raises:
        StorageError: There is none, or it cannot be read.
        DamageError: It was cut, altered, or is that of another shard.
    """
    name = receipt_name(shard)
    receipt = Receipt.from_json(unseal(folder.read_bytes(name), name), name)
    if receipt.shard != shard:
        raise DamageError(f"{name} is the receipt of shard {receipt.shard}")
    return receipt


def valid_receipt(folder: Folder, plan: Plan, shard: PlannedShard) -> Receipt | None:
    """The receipt of a planned shard if that is done; None where it has to be computed.

    It must be whole and fit the plan, and its file must be there in the full length. The content of the file is left to
    `verify`.
    """
    if not folder.exists(receipt_name(shard.number)):
        return None
    try:
        receipt = read_receipt(folder, shard.number)
    except StoreError:
        return None
    planned = (plan.fingerprint, shard.sentences, shard.tokens)
    if (receipt.fingerprint, receipt.sentences, receipt.tokens) != planned:
        return None
    if not folder.exists(receipt.file) or folder.size(receipt.file) != receipt.bytes:
        return None
    return receipt
