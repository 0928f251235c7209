"""A linear-chain conditional random field (Lafferty et al. 2001): likelihood of a tag sequence, and the best one.

The libraries that have one are no longer maintained, hence this small one; its sums are tested against enumeration.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

FORBIDDEN = -1e4


class LinearChainCrf(nn.Module):
    """Scores tag sequences by `sum_t emission[t, tag_t] + transition[tag_(t-1), tag_t]`, with start and end scores.

    Args:
        tags: The tags, in the order of the emission scores.
        may_follow: Whether one tag may follow another, None standing for the start and the end of the sentence;
            all may where it is not given.
    """

    forbidden: Tensor

    def __init__(
        self, tags: Sequence[str], *, may_follow: Callable[[str | None, str | None], bool] | None = None
    ) -> None:
        super().__init__()
        n = len(tags)
        # The last row holds the scores from the start, the last column those to the end.
        self.transitions = nn.Parameter(torch.zeros(n + 1, n + 1))
        forbidden = torch.zeros(n + 1, n + 1, dtype=torch.bool)
        if may_follow is not None:
            ends: list[str | None] = [*tags, None]
            forbidden = torch.tensor([[not may_follow(left, right) for right in ends] for left in ends])
        self.register_buffer("forbidden", forbidden)

    def _scores(self) -> Tensor:
        return self.transitions.masked_fill(self.forbidden, FORBIDDEN)

    def log_likelihood(self, emissions: Tensor, tags: Tensor, mask: Tensor) -> Tensor:
        """The log-probability of each tag sequence, (batch).

        Args:
            emissions: Scores (batch, tokens, tags).
            tags: The sequences, int64 (batch, tokens); anything where masked.
            mask: True at real tokens, which come first and are at least one a row (batch, tokens).
        """
        return self._score(emissions, tags, mask) - self._log_partition(emissions, mask)

    def _score(self, emissions: Tensor, tags: Tensor, mask: Tensor) -> Tensor:
        scores = self._scores()
        tags = tags.masked_fill(~mask, 0)
        emitted = emissions.gather(2, tags[:, :, None])[:, :, 0].masked_fill(~mask, 0.0).sum(1)
        moved = scores[tags[:, :-1], tags[:, 1:]].masked_fill(~mask[:, 1:], 0.0).sum(1)
        last = tags.gather(1, mask.sum(1, keepdim=True) - 1)[:, 0]
        return emitted + moved + scores[-1, tags[:, 0]] + scores[last, -1]

    def _log_partition(self, emissions: Tensor, mask: Tensor) -> Tensor:
        scores = self._scores()
        inner = scores[:-1, :-1]
        alpha = scores[-1, :-1] + emissions[:, 0]
        for step in range(1, emissions.shape[1]):
            following = torch.logsumexp(alpha[:, :, None] + inner, dim=1) + emissions[:, step]
            alpha = torch.where(mask[:, step, None], following, alpha)
        return torch.logsumexp(alpha + scores[:-1, -1], dim=1)

    @torch.no_grad()
    def decode(self, emissions: Tensor, mask: Tensor) -> list[list[int]]:
        """The best tag sequence of each sentence (Viterbi 1967), as long as the sentence.

        Args:
            emissions: Scores (batch, tokens, tags).
            mask: True at real tokens, which come first (batch, tokens); a row may be all masked.
        """
        scores = self._scores()
        best = scores[-1, :-1] + emissions[:, 0]
        pointers = []
        for step in range(1, emissions.shape[1]):
            reached, pointer = (best[:, :, None] + scores[:-1, :-1]).max(dim=1)
            best = torch.where(mask[:, step, None], reached + emissions[:, step], best)
            pointers.append(pointer)
        last = (best + scores[:-1, -1]).argmax(dim=1).tolist()
        sequences = []
        for row, length in enumerate(mask.sum(1).tolist()):
            sequence = [last[row]]
            for pointer in reversed(pointers[: length - 1]):
                sequence.append(int(pointer[row, sequence[-1]]))
            sequences.append(sequence[::-1][:length])
        return sequences
