"""From tokens to context-free token vectors: a character CNN with highway layers, or a table of words.

The modules serve extraction and training alike: float32 parameters, differentiable.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import TypeVar, cast

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from elmo_model import characters
from elmo_model.options import TRAINING_CHARACTERS, Activation, CharCnnOptions
from elmo_model.vocabulary import Vocabulary

_Module = TypeVar("_Module", bound=nn.Module)


class TokenEncoder(nn.Module, ABC):
    """A vector for each token, independent of the tokens around it.

    Attributes:
        width: Width of a token vector (p).
        begin_sentence: The token that stands for the beginning of a sentence.
        end_sentence: The token that stands for its end.
    """

    width: int
    begin_sentence = characters.BEGIN_SENTENCE
    end_sentence = characters.END_SENTENCE

    @abstractmethod
    def token_ids(self, tokens: Sequence[str]) -> NDArray[np.int32]:
        """What the encoder reads of each token, int32 (tokens, ...)."""

    @abstractmethod
    def remarks(self, token: str) -> dict[str, int]:
        """Counts, by name, of what reading the token loses or takes otherwise than its spelling says."""

    @abstractmethod
    def forward(self, ids: Tensor) -> Tensor:
        """The token vectors, float32 (tokens, p), of ids (tokens, ...)."""


class CharacterTokenEncoder(TokenEncoder):
    """The character CNN: embedding, convolutions, maximum over positions, highways and a linear projection.

    Args:
        options: Sizes.
        width: Width of a token vector (p).
        project: Whether the projection exists; by default unless the filters already have width p.
    """

    def __init__(self, options: CharCnnOptions, *, width: int, project: bool | None = None) -> None:
        super().__init__()
        self.options = options
        self.width = width
        # Row k is the character of id k + 1; id 0, "no token", is no character and has the zero vector.
        self.char_embed = nn.Parameter(torch.zeros(TRAINING_CHARACTERS, options.embedding_dim))
        self.convolutions = nn.ModuleList(
            zeroed(nn.Conv1d(options.embedding_dim, count, bank_width, device="meta"))
            for bank_width, count in options.filters
        )
        self.highways = nn.ModuleList(Highway(options.n_filters) for _ in range(options.n_highway))
        self.projection: nn.Linear | None = None
        if options.n_filters != width if project is None else project:
            self.projection = zeroed(RowwiseLinear(options.n_filters, width, device="meta"))

    def token_ids(self, tokens: Sequence[str]) -> NDArray[np.int32]:
        """The character rows of the tokens, int32 (tokens, characters)."""
        return characters.tokens_to_ids(tokens, max_characters=self.options.max_characters_per_token)

    def remarks(self, token: str) -> dict[str, int]:
        """Counts of `truncated_tokens`, `dropped_surrogates` and `boundary_like_tokens`; zero counts are left out."""
        limit = self.options.max_characters_per_token - 2
        if token.isascii() and len(token) <= limit and not characters.is_boundary_like(token):
            return {}  # nearly all are so, and this is done for every type of every batch
        counts = {
            "truncated_tokens": int(
                characters.is_truncated(token, max_characters=self.options.max_characters_per_token)
            ),
            "dropped_surrogates": characters.count_lone_surrogates(token),
            "boundary_like_tokens": int(characters.is_boundary_like(token)),
        }
        return {name: count for name, count in counts.items() if count}

    def forward(self, ids: Tensor) -> Tensor:
        """Token vectors, float32 (tokens, p), of shifted character ids (tokens, characters)."""
        embedded = F.embedding(ids, F.pad(self.char_embed, (0, 0, 1, 0)))
        vectors = convolve(embedded, self.convolutions, self.highways, activation=self.options.activation)
        return vectors if self.projection is None else self.projection(vectors)

    @torch.no_grad()
    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draws the initial values of the original training program."""
        self.char_embed.uniform_(-1.0, 1.0, generator=generator)
        for convolution in cast("Iterable[nn.Conv1d]", self.convolutions):
            if self.options.activation == "relu":
                convolution.weight.uniform_(-0.05, 0.05, generator=generator)
            else:
                fan_in = convolution.in_channels * convolution.kernel_size[0]
                convolution.weight.normal_(0.0, math.sqrt(1 / fan_in), generator=generator)
            cast("Tensor", convolution.bias).zero_()
        for highway in cast("Iterable[Highway]", self.highways):
            highway.reset_parameters(generator)
        if self.projection is not None:
            std = math.sqrt(1 / self.projection.in_features)
            self.projection.weight.normal_(0.0, std, generator=generator)
            self.projection.bias.zero_()


def convolve(
    embedded: Tensor, convolutions: nn.ModuleList, highways: nn.ModuleList, *, activation: Activation
) -> Tensor:
    """What the filters find in words, through the highways: float32 (tokens, filters).

    The maximum is taken before the activation, over all positions of the row, those of the padding too.

    Args:
        embedded: Character vectors (tokens, characters, d).
        convolutions: One Conv1d for each filter bank.
        highways: `Highway` layers.
        activation: Applied after the maximum.
    """
    activate = torch.relu if activation == "relu" else torch.tanh
    characters_last = embedded.transpose(1, 2)
    vectors = torch.cat([activate(bank(characters_last).amax(dim=2)) for bank in convolutions], dim=1)
    for highway in highways:
        vectors = highway(vectors)
    return vectors


class RowwiseLinear(nn.Linear):
    """A linear layer whose result for a row has the same bits wherever among the rows it stands.

    Matrix products of an inner width that isn't a multiple of 4 were seen to sum the rows of one matrix in different
    orders; such widths are padded with zeros to whole vector registers.
    """

    def forward(self, rows: Tensor) -> Tensor:
        """Rows (tokens, in) to rows (tokens, out)."""
        missing = -self.in_features % 16
        return F.linear(F.pad(rows, (0, missing)), F.pad(self.weight, (0, missing)), self.bias)


class Highway(nn.Module):
    """A layer that mixes its input with a transformed copy of it, by a learned gate; width in is width out."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gate = zeroed(RowwiseLinear(width, width, device="meta"))
        self.transform = zeroed(RowwiseLinear(width, width, device="meta"))

    def forward(self, vectors: Tensor) -> Tensor:
        """Vectors (tokens, filters) to vectors of the same shape; the gate opens the transform, always a relu."""
        gate = torch.sigmoid(self.gate(vectors))
        return gate * torch.relu(self.transform(vectors)) + (1.0 - gate) * vectors

    @torch.no_grad()
    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draws initial values that let most of the input through."""
        for linear in (self.gate, self.transform):
            linear.weight.normal_(0.0, math.sqrt(1 / linear.in_features), generator=generator)
        self.gate.bias.fill_(-2.0)
        self.transform.bias.zero_()


class WordTokenEncoder(TokenEncoder):
    """A table of one vector per word of a vocabulary; other words share the vector of `<UNK>`."""

    def __init__(self, vocabulary: Vocabulary, *, width: int) -> None:
        super().__init__()
        self.vocabulary = vocabulary
        self.width = width
        self.embedding = nn.Parameter(torch.zeros(len(vocabulary), width))

    def token_ids(self, tokens: Sequence[str]) -> NDArray[np.int32]:
        """The word ids of the tokens, int32 (tokens,)."""
        return np.array([self.vocabulary.id_of(token) for token in tokens], dtype=np.int32)

    def remarks(self, token: str) -> dict[str, int]:
        """Counts of `unknown_words` and `boundary_like_tokens`; zero counts are left out."""
        if token not in self.vocabulary:
            return {"unknown_words": 1}
        return {"boundary_like_tokens": 1} if characters.is_boundary_like(token) else {}

    def forward(self, ids: Tensor) -> Tensor:
        """Token vectors, float32 (tokens, p), of word ids (tokens,)."""
        return F.embedding(ids, self.embedding)

    @torch.no_grad()
    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draws initial values as for character vectors."""
        self.embedding.uniform_(-1.0, 1.0, generator=generator)


def zeroed(module: _Module) -> _Module:
    """The module, made without storage, with all parameters zero: they are about to be read from a file, or reset."""
    for name, parameter in module.named_parameters():  # torch's own `to_empty` imports sympy, 45 MB
        setattr(module, name, nn.Parameter(torch.zeros(parameter.shape)))
    return module
