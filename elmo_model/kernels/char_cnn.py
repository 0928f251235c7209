"""The fast character CNN on a CPU: packed products, and convolutions over no more padding than the values depend on."""

from typing import cast

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from elmo_model.characters import PADDING_ID
from elmo_model.kernels.packed_linear import Linear, packed_linear
from elmo_model.kernels.tokens import in_blocks
from elmo_model.kernels.workers import Workers
from elmo_model.token_encoder import CharacterTokenEncoder, Highway

CUT_LENGTHS = (24, 20, 16, 12)  # of character rows, longest first
# Rows of a product, which must not vary (see `tokens.BLOCK`): many for the highways, which cost most; few for the
# convolutions, whose rows are windows, so that those of each length fill their blocks.
BLOCK = 128
CONVOLVED_ROWS = 32


class PackedCharacters:
    """A character encoder ready to compute on CPU threads; see `tokens.TokenKernel`.

    All windows that lie wholly in the padding give one value, so rows are cut as long as one such window is left.

    Args:
        encoder: The weights.
        workers: The threads, which take whole blocks.
    """

    def __init__(self, encoder: CharacterTokenEncoder, *, workers: Workers) -> None:
        options = encoder.options
        self._workers = workers
        self._max_characters = options.max_characters_per_token
        self._n_filters = options.n_filters
        self._widest = max(width for width, _ in options.filters)
        self._table = F.pad(encoder.char_embed.detach(), (0, 0, 1, 0))
        self._activate = torch.relu_ if options.activation == "relu" else torch.tanh_
        self._banks = []
        for (width, _), module in zip(options.filters, encoder.convolutions, strict=True):
            convolution = cast("nn.Conv1d", module)
            kernel = convolution.weight.detach().permute(0, 2, 1).flatten(1)
            bias = cast("Tensor", convolution.bias).detach()
            self._banks.append((width, packed_linear(kernel, bias)))
        self._highways = [
            (_packed(highway.gate), _packed(highway.transform)) for highway in cast("list[Highway]", encoder.highways)
        ]
        self._projection = None if encoder.projection is None else _packed(encoder.projection)

    def __call__(self, ids: NDArray[np.int32]) -> Tensor:
        """The vectors, float32 (tokens, p), of character rows (tokens, characters)."""
        lengths = self._cut_lengths(ids)
        order = np.argsort(-lengths, kind="stable")  # the longest first, so that threads end at about one time
        filled = np.concatenate([order, np.repeat(order[-1:], -len(order) % BLOCK)])
        blocks = [(ids[places], lengths[places]) for places in filled.reshape(-1, BLOCK)]
        encoded = torch.cat(self._workers.map(self._encode, blocks))
        return torch.empty_like(encoded[: len(ids)]).index_copy_(0, torch.from_numpy(order), encoded[: len(ids)])

    def _cut_lengths(self, ids: NDArray[np.int32]) -> NDArray[np.int64]:
        """The characters that are read of each row; they depend on the row alone, or its vector would on the others."""
        needed = (ids != PADDING_ID).sum(axis=1) + self._widest
        lengths = np.full(len(ids), self._max_characters)
        for length in CUT_LENGTHS:
            if length < self._max_characters:
                lengths[needed <= length] = length
        return lengths

    def _encode(self, block: tuple[NDArray[np.int32], NDArray[np.int64]]) -> Tensor:
        """The vectors of a block of rows and the lengths they are cut to; products always have `BLOCK` rows."""
        ids, lengths = block
        vectors = torch.empty(len(ids), self._n_filters)
        for length in np.unique(lengths):
            places = np.flatnonzero(lengths == length)
            found = [self._convolve(part) for part in in_blocks(ids[places, :length], rows=CONVOLVED_ROWS)]
            vectors[places] = torch.cat(found)[: len(places)]
        vectors = self._activate(vectors)
        for gate, transform in self._highways:
            vectors = torch.lerp(vectors, transform(vectors).relu_(), gate(vectors).sigmoid_())
        return vectors if self._projection is None else self._projection(vectors)

    def _convolve(self, ids: Tensor) -> Tensor:
        """The maximum of each filter over all windows, (rows, filters)."""
        rows, length = ids.shape
        characters = F.embedding(ids, self._table)
        dim = characters.shape[2]
        banks = []
        for width, bank in self._banks:
            shape, stride = (rows, length - width + 1, width * dim), (length * dim, dim, 1)
            windows = characters.as_strided(shape, stride).reshape(-1, width * dim)
            banks.append(bank(windows).view(*shape[:2], -1).amax(dim=1))
        return torch.cat(banks, dim=1)


def _packed(linear: nn.Linear) -> Linear:
    return packed_linear(linear.weight.detach(), linear.bias.detach())
