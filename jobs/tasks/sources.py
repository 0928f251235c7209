"""Where a probe gets the vectors of a sentence: one layer of a store, or static vectors."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from jobs.tasks.features import join
from jobs.tasks.formats import Example
from jobs.tasks.words import StaticVectors
from pipeline.reader import FeatureStore


class VectorSource(Protocol):
    """Gives the vectors of a sentence's tokens."""

    def of(self, sentences: Sequence[Example]) -> list[NDArray[np.float32]]:
        """For each sentence, float32 (tokens, width)."""
        ...


@dataclass(frozen=True)
class StoreLayer:
    """One published layer of a store."""

    store: FeatureStore
    layer: int

    def of(self, sentences: Sequence[Example]) -> list[NDArray[np.float32]]:
        """The layer of each sentence, after the check that labels and features mean the same tokens."""
        return [features.layers(only=[self.layer], dtype=np.float32)[0] for features in join(sentences, self.store)]


@dataclass(frozen=True)
class StaticSource:
    """The static vector of each token, zero for a token without."""

    vectors: StaticVectors

    def of(self, sentences: Sequence[Example]) -> list[NDArray[np.float32]]:
        """The static vectors of each sentence."""
        return [self.vectors.of(sentence.tokens) for sentence in sentences]
