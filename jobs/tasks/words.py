"""Words as a baseline sees them: indices, characters, and static vectors read from a file."""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pipeline.errors import CorpusError

UNKNOWN = 0
MAX_BYTES = 24


class StaticVectors:
    """Vectors of a fixed list of lower-case words.

    Attributes:
        vectors: float32 (words, width).
        index: The row of each word.
    """

    def __init__(self, words: Sequence[str], vectors: NDArray[np.float32]) -> None:
        self.vectors = vectors
        self.index = {word: row for row, word in enumerate(words)}

    @classmethod
    def read(cls, folder: Path) -> "StaticVectors":
        """The vectors of a folder with `words.txt`, one a line, and `vectors.npy`, (words, width).

        Raises:
            CorpusError: A file is missing or malformed, or the two do not agree in length.
        """
        try:
            words = (folder / "words.txt").read_text(encoding="utf-8").splitlines()
            vectors = np.load(folder / "vectors.npy", allow_pickle=False)
        except (OSError, ValueError) as error:
            raise CorpusError(f"{folder}: no static vectors (words.txt and vectors.npy): {error}") from None
        if vectors.ndim != 2 or len(vectors) != len(words):
            raise CorpusError(f"{folder}: {len(words)} words in words.txt, but vectors.npy is {vectors.shape}")
        return cls(words, vectors.astype(np.float32))

    @property
    def width(self) -> int:
        """Numbers a word."""
        return int(self.vectors.shape[1])

    def of(self, tokens: Sequence[str]) -> NDArray[np.float32]:
        """The vectors of tokens, (tokens, width); zero for those without."""
        found = np.zeros((len(tokens), self.width), dtype=np.float32)
        for row, token in enumerate(tokens):
            number = self.index.get(token.lower())
            if number is not None:
                found[row] = self.vectors[number]
        return found


class WordIndex:
    """Numbers for lower-case words; every other word is UNKNOWN, 0."""

    def __init__(self, words: Iterable[str]) -> None:
        self._numbers = {word: number for number, word in enumerate(words, UNKNOWN + 1)}

    @classmethod
    def build(cls, sentences: Iterable[Sequence[str]], *, known: Iterable[str] = (), min_count: int = 2) -> "WordIndex":
        """The words seen at least `min_count` times, most frequent first, and after them the `known` ones."""
        counts = Counter(token.lower() for tokens in sentences for token in tokens)
        frequent = [word for word, count in counts.most_common() if count >= min_count]
        return cls(dict.fromkeys([*frequent, *known]))

    def __len__(self) -> int:
        return len(self._numbers) + 1

    def words(self) -> list[str]:
        """The words in the order of their numbers, from 1."""
        return list(self._numbers)

    def number(self, token: str) -> int:
        """The number of a token."""
        return self._numbers.get(token.lower(), UNKNOWN)


def byte_ids(tokens: Sequence[str]) -> Tensor:
    """The UTF-8 bytes of tokens raised by 1, int64 (tokens, bytes), 0 behind the end; long ones are cut."""
    encoded = [token.encode("utf-8", "replace")[:MAX_BYTES] for token in tokens]
    lengths = np.array([len(token) for token in encoded], dtype=np.int64)
    ids = np.zeros((len(tokens), int(lengths.max(initial=0))), dtype=np.int64)
    present = np.arange(ids.shape[1])[None, :] < lengths[:, None]
    ids[present] = np.frombuffer(b"".join(encoded), dtype=np.uint8).astype(np.int64) + 1
    return torch.from_numpy(ids)
