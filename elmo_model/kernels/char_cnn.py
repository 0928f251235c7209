"""The fast character CNN on a CPU: packed products, and convolutions over no more padding than the values depend on."""

from typing import cast

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from elmo_model.characters import PADDING_ID
from elmo_model.kernels.packed_linear import Linear, packed_linear
from elmo_model.kernels.tokens import BLOCK, blocks
from elmo_model.kernels.workers import Workers
from elmo_model.token_encoder import CharacterTokenEncoder, Highway

CUT_LENGTHS = (24, 16)  # of character rows, longest first


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
        # The length of a cut row must depend on the token alone, or its vector would on the others in the block.
        needed = (ids != PADDING_ID).sum(axis=1) + self._widest
        lengths = np.full(len(ids), self._max_characters)
        for length in CUT_LENGTHS:
            if length < self._max_characters:
                lengths[needed <= length] = length
        groups = [(length, np.flatnonzero(lengths == length)) for length in np.unique(lengths)]
        tasks = [block for length, places in groups for block in blocks(ids[places, :length])]
        encoded = self._workers.map(self._encode, tasks)
        vectors = torch.empty(len(ids), encoded[0].shape[1])
        for _, places in groups:
            count = -(-len(places) // BLOCK)
            vectors[places] = torch.cat(encoded[:count])[: len(places)]
            del encoded[:count]
        return vectors

    def _encode(self, ids: Tensor) -> Tensor:
        tokens, length = ids.shape
        characters = F.embedding(ids, self._table)
        dim = characters.shape[2]
        banks = []
        for width, bank in self._banks:
            shape, stride = (tokens, length - width + 1, width * dim), (length * dim, dim, 1)
            windows = characters.as_strided(shape, stride).reshape(-1, width * dim)
            banks.append(bank(windows).view(*shape[:2], -1).amax(dim=1))
        vectors = self._activate(torch.cat(banks, dim=1))
        for gate, transform in self._highways:
            opened = gate(vectors).sigmoid_()
            vectors = opened * transform(vectors).relu_() + (1.0 - opened) * vectors
        return vectors if self._projection is None else self._projection(vectors)


def _packed(linear: nn.Linear) -> Linear:
    return packed_linear(linear.weight.detach(), linear.bias.detach())
