"""The order of tokens in which the LSTM kernels read a batch of sentences; see `elmo_model.kernels`."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True)
class Packing:
    """Where each packed row comes from.

    Attributes:
        order: The sentences, longest first, int64 (sentences,); those without tokens stand at the end.
        batch_sizes: Sentences that have a token at each position.
        rows: For each direction, for each packed row, the token's place among all tokens of the batch, int64 (tokens,).
            The backward direction reads every sentence from its own end.
    """

    order: NDArray[np.int64]
    batch_sizes: list[int]
    rows: dict[str, NDArray[np.int64]]

    @property
    def n_sentences(self) -> int:
        """Sentences that have tokens."""
        return self.batch_sizes[0] if self.batch_sizes else 0


def pack(lengths: NDArray[np.int64]) -> Packing:
    """The packing of sentences of the given lengths, which may be 0, lying one after the other."""
    order = np.argsort(-lengths, kind="stable")
    starts = np.cumsum(lengths) - lengths
    longest = int(lengths.max(initial=0))
    # Sentences longer than t, for t = 0, 1, ...: all of them, less those of length at most t.
    batch_sizes = len(lengths) - np.cumsum(np.bincount(lengths, minlength=longest + 1))[:longest]
    position = np.repeat(np.arange(longest), batch_sizes)
    rank = np.arange(len(position)) - np.repeat(np.cumsum(batch_sizes) - batch_sizes, batch_sizes)
    sentence = order[rank]
    return Packing(
        order=order,
        batch_sizes=batch_sizes.tolist(),
        rows={
            "forward": starts[sentence] + position,
            "backward": starts[sentence] + lengths[sentence] - 1 - position,
        },
    )
