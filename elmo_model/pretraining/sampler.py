"""The candidates of the sampled softmax: unique words, log-uniform over the ranks of the vocabulary."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Candidates:
    """Words drawn to stand for the whole vocabulary.

    Attributes:
        ids: Unique word ids, int64 (candidates,).
        tries: Draws it took to find them.
    """

    ids: NDArray[np.int64]
    tries: int


class LogUniformSampler:
    """Draws word k with probability P(k) = (ln(k + 2) - ln(k + 1)) / ln(V + 1).

    That is close to the frequency of words, if the vocabulary is sorted by it.

    Args:
        n_words: Words of the vocabulary (V).
        n_candidates: Unique words of a draw; below V.
        seed: Of the random numbers.
    """

    def __init__(self, *, n_words: int, n_candidates: int, seed: int) -> None:
        if not 0 < n_candidates < n_words:
            raise ValueError(f"can't draw {n_candidates} unique candidates from {n_words} words")
        self.n_words = n_words
        self.n_candidates = n_candidates
        self._generator = np.random.default_rng(seed)

    def draw(self) -> Candidates:
        """The next candidates, in the order they were drawn."""
        drawn = np.empty(0, dtype=np.int64)
        while True:
            uniform = self._generator.random(2 * self.n_candidates)
            words = np.exp(uniform * np.log(self.n_words + 1)).astype(np.int64) - 1
            drawn = np.append(drawn, np.clip(words, 0, self.n_words - 1))
            first = np.sort(np.unique(drawn, return_index=True)[1])
            if len(first) >= self.n_candidates:
                first = first[: self.n_candidates]
                return Candidates(drawn[first], int(first[-1]) + 1)

    def log_expected_count(self, ids: NDArray[np.int64], *, tries: int) -> NDArray[np.float32]:
        """How often each word is expected among candidates: ln(1 - (1 - P)^tries), float32, shaped like ids."""
        return log_expected_count(ids, n_words=self.n_words, tries=tries)

    def state(self) -> dict[str, Any]:
        """State of the random numbers, as JSON values."""
        return dict(self._generator.bit_generator.state)

    def restore(self, state: dict[str, Any]) -> None:
        """Goes on from a saved state."""
        self._generator.bit_generator.state = state


def log_expected_count(ids: NDArray[np.int64], *, n_words: int, tries: int) -> NDArray[np.float32]:
    """See `LogUniformSampler.log_expected_count`."""
    probability = np.log1p(1 / (ids + 1.0)) / np.log(n_words + 1)
    expected: NDArray[np.float64] = np.log(-np.expm1(tries * np.log1p(-probability)))
    return expected.astype(np.float32)
