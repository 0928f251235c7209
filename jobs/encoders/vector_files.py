"""Files of static word vectors: word2vec (text and binary), GloVe text, fastText (`.vec` and `.bin`).

Text is read here: words of published GloVe files hold blanks, which gensim takes for malformed lines. Binary files are
read by gensim, once it is sure that they are whole: gensim never returns from a cut fastText file.
"""

import math
import mmap
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import ConfigError

Kind = Literal["text", "text with header", "word2vec binary", "fasttext binary"]

_FASTTEXT_MAGIC = struct.pack("<i", 793712314)
_FASTTEXT_HEADER = struct.Struct("<2i12id3i2q")
_LONGEST_LINE = 1 << 20


@dataclass(frozen=True, kw_only=True)
class VectorFile:
    """What a file is, by its first bytes.

    Attributes:
        path: The file.
        kind: Its format.
        width: Numbers in a vector.
        words: Vectors it claims to have; None where it does not say.
    """

    path: Path
    kind: Kind
    width: int
    words: int | None


@dataclass(frozen=True, kw_only=True)
class WordVectors:
    """Words and their vectors.

    Attributes:
        rows: The row of each word.
        matrix: The vectors, float32 (words, width).
        compose: Makes a vector for any other word from its parts, where the file has such.
    """

    rows: dict[str, int]
    matrix: NDArray[np.float32]
    compose: Callable[[str], NDArray[np.float32]] | None = None


def inspect_file(path: Path) -> VectorFile:
    """The format and width of a file.

    Raises:
        ConfigError: The file cannot be read, or is of no known format.
    """
    try:
        with open(path, "rb") as file:
            return _inspect(path, file)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None


def _inspect(path: Path, file: BinaryIO) -> VectorFile:
    first, second = file.readline(_LONGEST_LINE), file.readline(_LONGEST_LINE)
    if first.startswith(_FASTTEXT_MAGIC):
        file.seek(0)
        header = file.read(_FASTTEXT_HEADER.size)
        if len(header) < _FASTTEXT_HEADER.size:
            raise ConfigError(f"{path}: a fastText model, cut in its header")
        fields = _FASTTEXT_HEADER.unpack(header)
        return VectorFile(path=path, kind="fasttext binary", width=fields[2], words=fields[15])
    if first.startswith(b"\x1f\x8b") or first.startswith(b"PK\x03\x04"):
        raise ConfigError(f"{path}: is packed; unpack it first")
    parts = first.split()
    if len(parts) == 2 and all(part.isdigit() for part in parts):
        words, width = int(parts[0]), int(parts[1])
        is_text = _numbers(second, width) is not None
        return VectorFile(
            path=path, kind="text with header" if is_text else "word2vec binary", width=width, words=words
        )
    width = len(first.rstrip(b" \r\n").split(b" ")) - 1
    if width < 1 or _numbers(first, width) is None:
        raise ConfigError(
            f"{path}: no file of word vectors: its first line is neither 'WORDS WIDTH' nor a word and its numbers, and "
            "it is no fastText model"
        )
    return VectorFile(path=path, kind="text", width=width, words=None)


def read_vectors(file: VectorFile) -> WordVectors:
    """The vectors of a file; of a word that stands twice, the first.

    Words that are not UTF-8 are kept with replacement characters, where no token finds them.

    Raises:
        ConfigError: The file is cut or malformed (names the line, in text), or gensim is needed and not installed.
    """
    if file.kind in ("text", "text with header"):
        return _read_text(file)
    _check_word2vec(file) if file.kind == "word2vec binary" else _check_fasttext(file)
    return _read_binary(file)


def _read_text(file: VectorFile) -> WordVectors:
    rows: dict[str, int] = {}
    vectors: list[NDArray[np.float32]] = []
    number = 0
    for number, line in _lines(file):
        values = _numbers(line, file.width)
        if values is None:
            raise ConfigError(
                f"{file.path}: line {number} is not a word and {file.width} finite numbers: {line[:60]!r}"
            )
        word = line.rstrip(b" \r\n").rsplit(b" ", file.width)[0].decode("utf-8", errors="replace")
        if rows.setdefault(word, len(vectors)) == len(vectors):
            vectors.append(values)
    read = number - (file.kind == "text with header")
    if file.words is not None and read != file.words:
        raise ConfigError(f"{file.path}: its first line claims {file.words} words, but it has {read}; it may be cut")
    return WordVectors(rows=rows, matrix=np.stack(vectors))


def _lines(file: VectorFile) -> Iterator[tuple[int, bytes]]:
    with open(file.path, "rb") as raw:
        for number, line in enumerate(raw, 1):
            if number > 1 or file.kind == "text":
                yield number, line


def _numbers(line: bytes, width: int) -> NDArray[np.float32] | None:
    """The last `width` fields of a line as numbers; None if they are no finite numbers or nothing stands before."""
    parts = line.rstrip(b" \r\n").rsplit(b" ", width)
    if len(parts) != width + 1:
        return None
    try:
        values = np.array([float(part) for part in parts[1:]], dtype=np.float32)
    except ValueError:
        return None
    return values if np.isfinite(values).all() else None


def _read_binary(file: VectorFile) -> WordVectors:
    try:
        from gensim.models import KeyedVectors  # noqa: PLC0415 - an extra
        from gensim.models.fasttext import load_facebook_vectors  # noqa: PLC0415
    except ImportError:
        raise ConfigError(
            f"{file.path}: binary word vectors need gensim: pip install 'elmo-features[static]'"
        ) from None
    found: Any
    try:
        if file.kind == "word2vec binary":
            found = KeyedVectors.load_word2vec_format(str(file.path), binary=True, unicode_errors="replace")
        else:
            found = load_facebook_vectors(str(file.path))
    except (ValueError, EOFError, AssertionError, struct.error, NotImplementedError) as error:
        raise ConfigError(f"{file.path}: cannot be read as {file.kind}: {type(error).__name__}: {error}") from None
    if not np.isfinite(found.vectors).all():
        raise ConfigError(f"{file.path}: holds values that are not finite numbers")
    composes = file.kind == "fasttext binary" and found.bucket > 0
    return WordVectors(rows=found.key_to_index, matrix=found.vectors, compose=found.get_vector if composes else None)


def _check_word2vec(file: VectorFile) -> None:
    """Refuses a file too short for the vectors it claims, before memory is taken for them."""
    claimed = (file.words or 0) * (4 * file.width + 2)
    if not file.words or not file.width or claimed > file.path.stat().st_size:
        raise ConfigError(
            f"{file.path}: its first line claims {file.words} words of width {file.width}, but it has "
            f"{file.path.stat().st_size} bytes; it is cut, or no file of word vectors"
        )


def _check_fasttext(file: VectorFile) -> None:
    """Walks over the dictionary of a fastText model to see that the file is whole and of vectors as they are."""
    cut = ConfigError(f"{file.path}: this fastText model is cut")
    with open(file.path, "rb") as raw, mmap.mmap(raw.fileno(), 0, access=mmap.ACCESS_READ) as content:
        *_, entries, _, labels, _, pruned = _FASTTEXT_HEADER.unpack_from(content)
        if labels:
            raise ConfigError(f"{file.path}: a fastText classifier; models of word vectors are supported")
        place = _FASTTEXT_HEADER.size
        for _ in range(entries):
            end = content.find(b"\0", place)
            if end < 0:
                raise cut
            place = end + 10  # the mark, the word's count (8 bytes) and its kind (1)
        place += 8 * max(pruned, 0)
        if place + 17 > len(content):
            raise cut
        quantised, rows, width = struct.unpack_from("<?2q", content, place)
        if quantised:
            raise ConfigError(f"{file.path}: a quantised fastText model; use the one that is not")
        if rows < entries or width != file.width or place + 17 + 4 * math.prod((rows, width)) > len(content):
            raise cut
