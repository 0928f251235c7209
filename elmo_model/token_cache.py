"""Token vectors computed once per word type."""

from collections.abc import Sequence

import torch
from torch import Tensor

from elmo_model.kernels.tokens import TokenKernel
from elmo_model.token_encoder import TokenEncoder

CACHED_TYPES = 32768  # unless something else is asked for; of a full-size model 64 MB


class TokenVectors:
    """The vectors of word types, kept for those used last.

    A vector's bits depend on its type and the model alone, whatever was asked for before.

    Args:
        encoder: Says what is read of a token.
        kernel: Makes the vectors.
        capacity: Most types to keep; p floats each, in memory that grows with use.
        device: Where the vectors are made and kept.

    Attributes:
        hits: Types found, over all calls.
        misses: Types computed.
    """

    def __init__(self, encoder: TokenEncoder, kernel: TokenKernel, *, capacity: int, device: torch.device) -> None:
        self._encoder = encoder
        self._kernel = kernel
        self._capacity = capacity
        self._device = device
        self._store = torch.empty(capacity, encoder.width, device=device)
        self._slots: dict[str, int] = {}  # in the order of last use
        self.hits = 0
        self.misses = 0

    @torch.inference_mode()
    def of(self, types: Sequence[str]) -> Tensor:
        """The vectors of distinct types, float32 (types, p)."""
        vectors = torch.empty(len(types), self._encoder.width, device=self._device)
        found, slots, missing = [], [], []
        for place, token in enumerate(types):
            slot = self._slots.pop(token, None)
            if slot is None:
                missing.append(place)
            else:
                self._slots[token] = slot
                found.append(place)
                slots.append(slot)
        vectors[found] = self._store[slots]
        if missing:
            new = [types[place] for place in missing]
            computed = self._kernel(self._encoder.token_ids(new))
            vectors[missing] = computed
            self._keep(new, computed)
        self.hits += len(found)
        self.misses += len(missing)
        return vectors

    def _keep(self, types: Sequence[str], vectors: Tensor) -> None:
        kept = min(len(types), self._capacity)
        free = list(range(len(self._slots), min(len(self._slots) + kept, self._capacity)))
        while len(free) < kept:
            oldest = next(iter(self._slots))
            free.append(self._slots.pop(oldest))
        self._store[free] = vectors[:kept]
        self._slots.update(zip(types[:kept], free, strict=True))
