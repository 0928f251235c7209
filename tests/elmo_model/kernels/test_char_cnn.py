import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from elmo_model.kernels.char_cnn import BLOCK, CONVOLVED_ROWS, CUT_LENGTHS, PackedCharacters
from elmo_model.kernels.packed_linear import missing_operators
from elmo_model.kernels.workers import Workers
from elmo_model.token_encoder import CharacterTokenEncoder
from elmo_model.weights import read_bilm
from support.bilms import SEEDED, SEEDED_MODELS, TOLERANCE, random_bilm, tiny_options

pytestmark = pytest.mark.skipif(missing_operators() is not None, reason="this torch lacks the private operators")
WORKERS = Workers(2)
TYPES = ["x" * length for length in range(60)] + ["<S>", "</S>", "語" * 9, "a\ud800"] + [f"w{k}" for k in range(140)]


def both(encoder: object, types: list[str]) -> tuple[torch.Tensor, torch.Tensor]:
    assert isinstance(encoder, CharacterTokenEncoder)
    ids = encoder.token_ids(types)
    return PackedCharacters(encoder, workers=WORKERS)(ids), encoder(torch.from_numpy(ids))


@pytest.mark.parametrize("name", SEEDED_MODELS)
def test_words_of_every_length_have_the_vectors_of_the_plain_encoder(name: str) -> None:
    found, expected = both(read_bilm(SEEDED / name).token_encoder, TYPES)
    torch.testing.assert_close(found, expected, atol=TOLERANCE, rtol=0)


@settings(deadline=None, max_examples=25)
@given(
    st.lists(st.tuples(st.integers(1, 20), st.integers(1, 9)), min_size=1, max_size=4),
    st.integers(20, 60),
    st.sampled_from(["relu", "tanh"]),
    st.integers(0, 2),
    st.lists(st.text(max_size=70), min_size=1, max_size=70),
)
def test_random_encoders_agree(
    filters: list[tuple[int, int]], max_characters: int, activation: str, n_highway: int, types: list[str]
) -> None:
    options = tiny_options()
    options["char_cnn"].update(
        filters=[list(bank) for bank in filters],
        max_characters_per_token=max_characters,
        activation=activation,
        n_highway=n_highway,
    )
    found, expected = both(random_bilm(options, scale=0.3).token_encoder, types)
    torch.testing.assert_close(found, expected, atol=TOLERANCE, rtol=1e-5)


def test_rows_are_cut_to_the_shortest_length_that_keeps_a_window_of_padding() -> None:
    encoder = read_bilm(SEEDED / "base").token_encoder
    assert isinstance(encoder, CharacterTokenEncoder)
    widest, shortest, next_length = 5, *CUT_LENGTHS[:-3:-1]
    seen: list[tuple[int, ...]] = []
    packed = PackedCharacters(encoder, workers=Workers(1))
    convolve = packed._convolve
    packed._convolve = lambda ids: seen.append(tuple(ids.shape)) or convolve(ids)  # type: ignore[func-returns-value, method-assign]
    fitting = shortest - widest - 2
    for length in (fitting, fitting + 1, 40):
        packed(encoder.token_ids(["x" * length]))
    in_a_block = [CONVOLVED_ROWS] * (BLOCK // CONVOLVED_ROWS)
    assert seen == [(rows, length) for length in (shortest, next_length, 50) for rows in in_a_block]


def test_bits_depend_on_the_type_alone() -> None:
    for name in ("base", "wide_filters", "projection_over_filters"):
        encoder = read_bilm(SEEDED / name).token_encoder
        assert isinstance(encoder, CharacterTokenEncoder)
        whole = PackedCharacters(encoder, workers=WORKERS)(encoder.token_ids(TYPES))
        order = np.random.default_rng(0).permutation(len(TYPES))[:90]
        some = PackedCharacters(encoder, workers=Workers(1))(encoder.token_ids([TYPES[k] for k in order]))
        assert torch.equal(some, whole[order])
