"""Token vectors computed in blocks of one size."""

from collections.abc import Callable, Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmo_model.kernels.tf32 import tf32
from elmo_model.token_encoder import TokenEncoder

# Vectors, float32 (types, p), of what the token encoder reads of each type, int32 (types, ...).
TokenKernel = Callable[[NDArray[np.int32]], Tensor]

# Products over different numbers of rows differ in the last bits, so that a vector would depend on what else was
# missing when it was computed. Blocks always have this many rows.
BLOCK = 64
ACCELERATOR_BLOCK = 512


class PlainTokens:
    """A token encoder's own definition; see `TokenKernel`."""

    def __init__(self, encoder: TokenEncoder, *, device: torch.device) -> None:
        self._encoder = encoder.to(device).eval()
        self._device = device

    def __call__(self, ids: NDArray[np.int32]) -> Tensor:
        """The vectors, on the device."""
        rows = BLOCK if self._device.type == "cpu" else ACCELERATOR_BLOCK
        with tf32(allowed=False):
            encoded = [self._encoder(block.to(self._device)) for block in in_blocks(ids, rows=rows)]
        return torch.cat(encoded)[: len(ids)]


def in_blocks(ids: NDArray[np.int32], *, rows: int) -> Iterator[Tensor]:
    """The rows in blocks of one size, the last one filled up with copies of the first row."""
    filled = np.concatenate([ids, np.repeat(ids[:1], -len(ids) % rows, axis=0)])
    for start in range(0, len(filled), rows):
        yield torch.from_numpy(filled[start : start + rows])
