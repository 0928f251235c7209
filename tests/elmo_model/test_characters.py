import json

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo_model import characters
from support.bilms import SEEDED, SENTENCES


@pytest.mark.parametrize(("file", "length"), [("char_ids.hdf5", 50), ("max_characters_20/char_ids.hdf5", 20)])
def test_ids_equal_those_of_the_originals(file: str, length: int) -> None:
    with h5py.File(SEEDED / file) as golden:
        for key, sentence in enumerate(SENTENCES):
            ids = characters.tokens_to_ids(sentence, max_characters=length)
            np.testing.assert_array_equal(ids, golden[str(key)][()])


def test_a_padded_batch_with_boundaries_equals_that_of_the_original() -> None:
    with h5py.File(SEEDED / "char_ids_with_boundaries_batch.hdf5") as golden:
        expected = golden["char_ids"][()]
        sentences = json.loads(golden["char_ids"].file.attrs["sentences"])
    for rows, sentence in zip(expected, sentences, strict=True):
        marked = [characters.BEGIN_SENTENCE, *sentence, characters.END_SENTENCE]
        np.testing.assert_array_equal(rows[: len(marked)], characters.tokens_to_ids(marked, max_characters=50))
        assert not rows[len(marked) :].any()


def test_rows_of_a_character_and_of_the_boundaries_are_as_documented() -> None:
    padding = [characters.PADDING_ID] * 46
    assert characters.token_to_ids("é", max_characters=50).tolist() == [259, 196, 170, 260, *padding]
    assert characters.token_to_ids("<S>", max_characters=50).tolist() == [259, 257, 260, 261, *padding]
    assert characters.token_to_ids("</S>", max_characters=50).tolist() == [259, 258, 260, 261, *padding]


def test_a_long_token_is_cut_by_bytes() -> None:
    token = "語" * 17
    assert characters.is_truncated(token, max_characters=50)
    assert not characters.is_truncated(token[:16], max_characters=50)
    row = characters.token_to_ids(token, max_characters=50)
    np.testing.assert_array_equal(row, characters.token_to_ids(token[:16] + "x", max_characters=50))
    assert row[-1] == characters.END_WORD_ID


def test_the_boundaries_own_row_is_never_cut() -> None:
    assert not characters.is_truncated("</S>", max_characters=5)
    assert characters.is_truncated("word", max_characters=5)


def test_lone_surrogates_vanish_and_are_counted() -> None:
    with_surrogate = characters.token_to_ids("a\ud800b", max_characters=50)
    np.testing.assert_array_equal(with_surrogate, characters.token_to_ids("ab", max_characters=50))
    assert characters.count_lone_surrogates("a\ud800b\udfff") == 2


@given(st.text(st.characters(), max_size=60), st.integers(3, 60))
def test_every_row_is_the_tokens_bytes_between_the_two_word_marks(token: str, length: int) -> None:
    row = characters.token_to_ids(token, max_characters=length).tolist()
    if characters.is_boundary_like(token):
        return
    body = token.encode("utf-8", "ignore")
    end = row.index(characters.END_WORD_ID)
    assert row[0] == characters.BEGIN_WORD_ID
    assert bytes(k - 1 for k in row[1:end]) == body[: length - 2]
    assert set(row[end + 1 :]) <= {characters.PADDING_ID}
    assert len(row) == length
    assert characters.is_truncated(token, max_characters=length) == (len(body) > length - 2)
