"""Every place where a word stands in a store, with its vector and its sentence."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import ConfigError, MissingColumnError
from pipeline.reader import FeatureStore


@dataclass(frozen=True, kw_only=True)
class Occurrence:
    """One place where a word stands.

    Attributes:
        id: Of the sentence.
        position: Of the word in it, from 0.
        tokens: Of the sentence.
        vector: Of the word there, float32 (width).
    """

    id: str
    position: int
    tokens: tuple[str, ...]
    vector: NDArray[np.float32]

    def around(self, width: int) -> tuple[str, str, str]:
        """The words before, the word, and the words after it; whole words, about `width` characters together."""
        start, end = self.position, self.position + 1
        room = width - len(self.tokens[self.position])
        while room > 0 and (start > 0 or end < len(self.tokens)):
            # One more on the side that has fewer, as long as it has any.
            left = start > 0 and (end == len(self.tokens) or self.position - start <= end - 1 - self.position)
            start, end = (start - 1, end) if left else (start, end + 1)
            room -= 1 + len(self.tokens[start] if left else self.tokens[end - 1])
        before = ["…"] * (start > 0) + list(self.tokens[start : self.position])
        after = list(self.tokens[self.position + 1 : end]) + ["…"] * (end < len(self.tokens))
        return " ".join(before), self.tokens[self.position], " ".join(after)


def find_occurrences(
    store: FeatureStore, word: str, *, layer: int | None = None, limit: int | None = None
) -> tuple[list[Occurrence], int]:
    """Where a word stands, upper and lower case alike, in document order; and how often in all.

    Args:
        store: Is read from start to end.
        word: One token.
        layer: Whose vectors; the last of the store by default.
        limit: So many at most, chosen at random but always the same.

    Raises:
        ConfigError: The word stands nowhere.
        MissingColumnError: The store does not hold the layer.
    """
    only = [layer if layer is not None else last_layer(store)]
    store.layout.stacking(only)
    places = list(_places(store, word.casefold()))
    if not places:
        raise ConfigError(f"no sentence of the store has the token {word!r}; a word is looked up as one whole token")
    total = len(places)
    if limit is not None and total > limit:
        places = [places[row] for row in sorted(random.Random(0).sample(range(total), limit))]
    occurrences = []
    for number, position in places:
        features = store.at(number)
        vector = features.layers(only=only, dtype=np.float32)[0, position]
        occurrences.append(Occurrence(id=features.id, position=position, tokens=features.tokens, vector=vector))
    return occurrences, total


def last_layer(store: FeatureStore) -> int:
    """The number of the highest layer in a store.

    Raises:
        MissingColumnError: It holds no layers, only derived columns.
    """
    layers = [c.layer for c in store.columns.values() if c.layer is not None and c.rows == "token"]
    if not layers:
        raise MissingColumnError(
            f"the store holds no layers, only {', '.join(store.columns)}; dump it with --layers all"
        )
    return max(layers)


def similarities(rows: Sequence[NDArray[np.float32]], columns: Sequence[NDArray[np.float32]]) -> NDArray[np.float64]:
    """The cosine of each pair of vectors, float64 (rows, columns); 0 where a vector is zero."""
    return _units(rows) @ _units(columns).T


def _units(vectors: Sequence[NDArray[np.float32]]) -> NDArray[np.float64]:
    stacked = np.asarray(vectors, dtype=np.float64)
    lengths = np.linalg.norm(stacked, axis=1, keepdims=True)
    units: NDArray[np.float64] = stacked / np.where(lengths > 0, lengths, 1.0)
    return units


def _places(store: FeatureStore, word: str) -> Iterator[tuple[int, int]]:
    """Position of the sentence in the store, and of the word in the sentence."""
    for number, features in zip(store.positions().tolist(), store, strict=True):
        for position, token in enumerate(features.tokens):
            if token.casefold() == word:
                yield number, position
