"""The token embedder of ELMoForManyLangs: a word vector and a character CNN side by side, then a projection."""

from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from elmo_model.manylangs import dictionaries
from elmo_model.manylangs.dictionaries import Dictionary
from elmo_model.manylangs.options import EmbedderOptions
from elmo_model.token_encoder import Highway, RowwiseLinear, TokenEncoder, convolve, zeroed

# U+FF01 to U+FF5E are the printable ASCII characters in the width of an ideograph.
_FULL_WIDTH_TO_ASCII = {0xFF01 + offset: 0x21 + offset for offset in range(94)}


class ManyLangsTokenEncoder(TokenEncoder):
    """Token vectors from words, characters, or both; characters are code points.

    Args:
        options: Sizes.
        words: The words, if the model reads them.
        characters: The characters, if the model reads them.
        width: Width of a token vector (p).
        fold_full_width: Whether full-width forms of ASCII are read as ASCII. Published Chinese models were trained on
            such text and know no full-width punctuation, letters or digits.
    """

    begin_sentence = dictionaries.BEGIN_SENTENCE
    end_sentence = dictionaries.END_SENTENCE

    def __init__(
        self,
        options: EmbedderOptions,
        *,
        words: Dictionary | None,
        characters: Dictionary | None,
        width: int,
        fold_full_width: bool = False,
    ) -> None:
        super().__init__()
        self.options = options
        self.words = words
        self.characters = characters
        self.width = width
        self.fold_full_width = fold_full_width
        self.word_embed = None if words is None else nn.Parameter(torch.zeros(len(words), options.word_dim))
        self.char_embed = None if characters is None else nn.Parameter(torch.zeros(len(characters), options.char_dim))
        self.convolutions = nn.ModuleList(
            zeroed(nn.Conv1d(options.char_dim, count, bank_width, device="meta"))
            for bank_width, count in options.filters
        )
        self.highways = nn.ModuleList(Highway(options.n_filters) for _ in range(options.n_highway))
        joined = (0 if words is None else options.word_dim) + options.n_filters
        self.projection = zeroed(RowwiseLinear(joined, width, device="meta"))

    def token_ids(self, tokens: Sequence[str]) -> NDArray[np.int32]:
        """The word id of each token (0 without words), then its character row: int32 (tokens, 1 + characters)."""
        read = [self._as_read(token) for token in tokens]
        ids = np.zeros((len(tokens), 1), dtype=np.int32)
        if self.words is not None:
            ids[:, 0] = [self.words.id_of(token) for token in read]
        if self.characters is None:
            return ids
        return np.concatenate([ids, self._character_rows(read, self.characters)], axis=1)

    def _character_rows(self, tokens: Sequence[str], characters: Dictionary) -> NDArray[np.int32]:
        ids = characters.ids
        rows = np.full((len(tokens), self.options.max_characters or 0), ids[dictionaries.PADDING], dtype=np.int32)
        # Begin and end of a word are swapped, as in the original program; its models were trained so.
        first, last = ids[dictionaries.END_WORD], ids[dictionaries.BEGIN_WORD]
        for row, token in zip(rows, tokens, strict=True):
            is_boundary = token in (self.begin_sentence, self.end_sentence)
            body = [ids[token]] if is_boundary else [characters.id_of(character) for character in token]
            row[: len(body) + 2] = [first, *body, last]
        return rows

    def remarks(self, token: str) -> dict[str, int]:
        """Counts of what is unknown, shortened, folded or special in a token; zero counts are left out.

        `unknown_words`, `unknown_characters` (each code point that is read), `unknown_full_width_forms` (those among
        them that folding would make ASCII), `truncated_tokens`, `folded_tokens`, `boundary_like_tokens`.
        """
        read = self._as_read(token)
        is_boundary = read in (self.begin_sentence, self.end_sentence)
        characters = "" if self.characters is None or is_boundary else read
        unknown = [character for character in characters if character not in (self.characters or ())]
        counts = {
            "unknown_words": int(self.words is not None and read not in self.words),
            "unknown_characters": len(unknown),
            "unknown_full_width_forms": sum(ord(character) in _FULL_WIDTH_TO_ASCII for character in unknown),
            "truncated_tokens": int(len(read) < len(token)),
            "folded_tokens": int(self._folded(token) != token),
            "boundary_like_tokens": int(is_boundary),
        }
        return {name: count for name, count in counts.items() if count}

    def _as_read(self, token: str) -> str:
        """The token as it is looked up: folded if so chosen, then shortened to what a character row holds."""
        folded = self._folded(token)
        return folded if self.options.max_characters is None else folded[: self.options.max_characters - 2]

    def _folded(self, token: str) -> str:
        return token.translate(_FULL_WIDTH_TO_ASCII) if self.fold_full_width else token

    def forward(self, ids: Tensor) -> Tensor:
        """Token vectors, float32 (tokens, p), of ids (tokens, 1 + characters)."""
        parts = []
        if self.word_embed is not None:
            parts.append(F.embedding(ids[:, 0], self.word_embed))
        if self.char_embed is not None:
            embedded = F.embedding(ids[:, 1:], self.char_embed)
            parts.append(convolve(embedded, self.convolutions, self.highways, activation=self.options.activation))
        projected: Tensor = self.projection(torch.cat(parts, dim=1))
        return projected
