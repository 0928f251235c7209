"""Input files as bytes and as lines: compression, encoding and line ends, the same on every machine."""

import codecs
import contextlib
import hashlib
import io
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Protocol, cast

import pyarrow as pa

from pipeline.errors import CorpusError
from pipeline.storage import StoredFile, explain

COMPRESSIONS = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2"}

_CHUNK = 1 << 20


class Digest(Protocol):
    """What `hashlib` gives: takes bytes."""

    def update(self, data: bytes | memoryview, /) -> None:
        """Takes the next bytes."""
        ...


@dataclass(frozen=True, kw_only=True)
class InputFile:
    """One file of a corpus.

    Attributes:
        name: Relative to the corpus, with POSIX separators; the source of its sentences.
        content: Where it lies; what came through a pipe is in an unnamed temporary file, gone with this process.
    """

    name: str
    content: Path | StoredFile | BinaryIO

    def open(self) -> BinaryIO:
        """The file's own bytes from their start; the caller closes it.

        Raises:
            OSError: It cannot be opened.
        """
        if isinstance(self.content, Path):
            return self.content.open("rb")
        if isinstance(self.content, StoredFile):
            return self.content.open()
        file = os.fdopen(os.dup(self.content.fileno()), "rb")
        file.seek(0)
        return file

    def compression(self) -> str | None:
        """How the name says it is compressed, as pyarrow calls it; None for not at all."""
        return COMPRESSIONS.get(PurePosixPath(self.name).suffix.lower())

    def sha256(self) -> str:
        """The hexadecimal digest of the file's own bytes.

        Raises:
            CorpusError: It cannot be read.
        """
        digest = hashlib.sha256()
        self.feed(digest)
        return digest.hexdigest()

    def feed(self, digest: Digest) -> None:
        """Gives the file's own bytes to a digest.

        Raises:
            CorpusError: It cannot be read.
        """
        try:
            with self.open() as file:
                while chunk := file.read(_CHUNK):
                    digest.update(chunk)
        except OSError as error:
            raise CorpusError(f"{self.name}: cannot be read: {explain(error)}") from None


class _Hashed(io.RawIOBase):
    """A file whose bytes are hashed as they are read."""

    def __init__(self, file: BinaryIO, digest: Digest | None) -> None:
        self._file = cast(io.BufferedReader, file)
        self._digest = digest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        count = self._file.readinto(buffer)
        if self._digest is not None:
            self._digest.update(memoryview(buffer)[:count])
        return count


@contextlib.contextmanager
def decompressed(file: InputFile, *, digest: Digest | None = None) -> Iterator[BinaryIO]:
    """The decompressed bytes of a file, in order; `digest` is given the file's own bytes, all of them.

    Raises:
        OSError: From here or while reading: the file cannot be read, or its compressed data is cut or damaged.
    """
    with file.open() as own_bytes, io.BufferedReader(_Hashed(own_bytes, digest), _CHUNK) as hashed:
        compression = file.compression()
        if compression is None:
            yield cast(BinaryIO, hashed)
        else:
            if not hashed.peek(1):
                raise OSError(f"it is empty, which no {compression} file is")
            with pa.CompressedInputStream(pa.PythonFile(hashed, mode="r"), compression) as stream:
                yield stream


def read_lines(file: InputFile, *, encoding: str, digest: Digest | None = None) -> Iterator[str]:
    r"""The decoded lines of a file without their ends, which are `\n` and `\r\n` and nothing else; no byte order mark.

    Raises:
        CorpusError: It cannot be read, decompressed or decoded; names the file and the place.
    """
    number = 0
    try:
        with decompressed(file, digest=digest) as stream, io.TextIOWrapper(stream, encoding, newline="\n") as lines:
            for number, line in enumerate(lines, 1):
                end = -2 if line.endswith("\r\n") else -1 if line.endswith("\n") else None
                yield line[1 if number == 1 and line.startswith("\ufeff") else 0 : end]
    except UnicodeError as error:
        raise CorpusError(
            _undecodable(file, encoding) or f"{file.name}: does not decode as {encoding}: {error}"
        ) from None
    except OSError as error:
        place = f"after line {number}" if number else "from its start"
        raise CorpusError(f"{file.name}: cannot be read {place}: {explain(error)}") from None


def _undecodable(file: InputFile, encoding: str) -> str | None:
    """Where a file first does not decode, in words; None where the codec does not tell."""
    decoder = codecs.getincrementaldecoder(encoding)()
    consumed, line = 0, 1
    with decompressed(file) as stream:
        while True:
            chunk = stream.read(_CHUNK)
            pending = len(decoder.getstate()[0])
            try:
                line += decoder.decode(chunk, final=not chunk).count("\n")
            except UnicodeDecodeError as error:
                line += error.object[: error.start].decode(encoding, "replace").count("\n")
                byte = f"byte 0x{error.object[error.start]:02x} at offset {consumed - pending + error.start}"
                return f"{file.name}:{line}: {byte} does not decode as {encoding}; if it has another encoding, name it"
            except UnicodeError:
                return None
            if not chunk:
                return None
            consumed += len(chunk)
