"""JSON files that carry a digest of themselves, so that an altered byte is noticed wherever it stands."""

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any, BinaryIO

from pipeline.errors import DamageError

_SEAL = re.compile(rb',\n "sha256": "([0-9a-f]{64})"\n}\n\Z')


def seal(value: Mapping[str, Any]) -> bytes:
    """A JSON object as bytes that depend on its content alone, with the SHA-256 of the rest as its last key.

    Keys are sorted, one a line at the top; `value` has at least one.
    """
    body = json.dumps(value, ensure_ascii=False, sort_keys=True, indent=1, allow_nan=False).encode("utf-8")
    return body[:-2] + b',\n "sha256": "' + hashlib.sha256(body).hexdigest().encode("ascii") + b'"\n}\n'


def unseal(data: bytes, name: str) -> dict[str, Any]:
    """The object that `seal` wrote, without the digest.

    Raises:
        DamageError: The bytes are not those that were written; names the file.
    """
    found = _SEAL.search(data)
    body = data[: found.start()] + b"\n}" if found else b""
    if not found or hashlib.sha256(body).hexdigest().encode("ascii") != found[1]:
        raise DamageError(f"{name} is damaged: it was cut or altered, its own digest does not fit")
    value: dict[str, Any] = json.loads(body)
    return value


def sha256_of(file: BinaryIO) -> str:
    """The SHA-256 of a file from its start, in hexadecimal, read in pieces."""
    digest = hashlib.sha256()
    file.seek(0)
    while piece := file.read(2**20):
        digest.update(piece)
    return digest.hexdigest()
