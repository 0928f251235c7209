"""Tokens as rows of character ids: the UTF-8 bytes between two word marks, as the original models read them.

Ids are shifted by one, so that 0 stands for "no token here": bytes 0..255 are 1..256, then come the five marks
below. No vocabulary is involved.
"""

from collections.abc import Sequence
from typing import cast

import numpy as np
from numpy.typing import NDArray

BEGIN_SENTENCE_ID = 257
END_SENTENCE_ID = 258
BEGIN_WORD_ID = 259
END_WORD_ID = 260
PADDING_ID = 261  # inside a row, after the end of the word; it has a learned vector

BEGIN_SENTENCE = "<S>"
END_SENTENCE = "</S>"
_BOUNDARY_IDS = {BEGIN_SENTENCE: BEGIN_SENTENCE_ID, END_SENTENCE: END_SENTENCE_ID}


def tokens_to_ids(tokens: Sequence[str], *, max_characters: int) -> NDArray[np.int32]:
    """The character ids of tokens, int32 (tokens, characters).

    A token longer than `max_characters - 2` bytes loses its tail, even inside a character. Lone surrogates vanish.
    The strings `<S>` and `</S>` give the rows of the sentence boundaries, as they do in AllenNLP.
    """
    ids = np.full((len(tokens), max_characters), PADDING_ID, dtype=np.int32)
    ids[:, 0] = BEGIN_WORD_ID
    bodies = [_utf8(token)[: max_characters - 2] for token in tokens]
    lengths = np.fromiter(map(len, bodies), np.int64, len(bodies))
    inside = np.arange(max_characters - 2) < lengths[:, None]
    ids[:, 1:-1][inside] = np.frombuffer(b"".join(bodies), dtype=np.uint8).astype(np.int32) + 1
    ids[np.arange(len(ids)), lengths + 1] = END_WORD_ID
    for place, token in enumerate(tokens):
        if token in _BOUNDARY_IDS:
            ids[place, 1:] = PADDING_ID
            ids[place, 1:3] = _BOUNDARY_IDS[token], END_WORD_ID
    return ids


def token_to_ids(token: str, *, max_characters: int) -> NDArray[np.int32]:
    """The character ids of one token, int32 (characters,); see `tokens_to_ids`."""
    (row,) = tokens_to_ids([token], max_characters=max_characters)
    return cast("NDArray[np.int32]", row)


def is_truncated(token: str, *, max_characters: int) -> bool:
    """Whether the token's bytes don't fit its row, so that its tail is lost."""
    return token not in _BOUNDARY_IDS and len(_utf8(token)) > max_characters - 2


def count_lone_surrogates(token: str) -> int:
    """How many code points of the token have no UTF-8 form and are left out of its row."""
    return sum("\ud800" <= character <= "\udfff" for character in token)


def is_boundary_like(token: str) -> bool:
    """Whether the token is spelt like a sentence boundary, and so gets the boundary's row."""
    return token in _BOUNDARY_IDS


def _utf8(token: str) -> bytes:
    return token.encode("utf-8", errors="ignore")
