import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from elmo_model.kernels.tokens import BLOCK, PlainTokens
from elmo_model.token_cache import TokenVectors
from elmo_model.token_encoder import TokenEncoder
from elmo_model.weights import read_bilm
from support.bilms import SEEDED, random_bilm, tiny_options

TYPES = [f"word{k}" for k in range(3 * BLOCK + 5)]
CPU = torch.device("cpu")


def cache(capacity: int, model: str = "base") -> TokenVectors:
    return cache_of(read_bilm(SEEDED / model).token_encoder, capacity)


def cache_of(encoder: TokenEncoder, capacity: int) -> TokenVectors:
    return TokenVectors(encoder, PlainTokens(encoder, device=CPU), capacity=capacity, device=CPU)


@pytest.mark.parametrize("model", ["base", "tanh_l2_highway0", "wide_filters", "projection_over_filters"])
def test_bits_do_not_depend_on_order_company_or_history(model: str) -> None:
    expected = dict(zip(TYPES, cache(1000, model).of(TYPES), strict=True))
    vectors = cache(40, model)
    generator = random.Random(0)
    for size in (1, 2, 63, 64, 65, 130, 7, 1, 190):
        asked = generator.sample(TYPES, size)
        for token, vector in zip(asked, vectors.of(asked), strict=True):
            assert torch.equal(vector, expected[token]), token


@settings(deadline=None, max_examples=40)
@given(
    st.integers(1, 12),
    st.lists(st.lists(st.sampled_from("abcdefghij"), unique=True, min_size=1, max_size=8), max_size=8),
)
def test_a_bounded_cache_gives_what_a_fresh_one_gives(capacity: int, batches: list[list[str]]) -> None:
    vectors = cache_of(random_bilm().token_encoder, capacity)
    for batch in batches:
        fresh = cache_of(random_bilm().token_encoder, 0)
        assert torch.equal(vectors.of(batch), fresh.of(batch))


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 40), st.integers(1, 20), st.integers(0, 2))
def test_bits_do_not_depend_on_company_for_any_width(n_filters: int, width: int, n_highway: int) -> None:
    options = tiny_options(projection_dim=width)
    options["char_cnn"].update(filters=[[2, n_filters]], n_highway=n_highway)
    encoder = random_bilm(options).token_encoder
    whole = cache_of(encoder, 0).of(TYPES[:BLOCK])
    turned = cache_of(encoder, 0).of(TYPES[1:BLOCK] + TYPES[:1])
    assert torch.equal(turned.roll(1, 0), whole)


def test_tokens_that_differ_behind_the_cut_have_equal_vectors() -> None:
    first, second = cache(10).of(["x" * 48 + "one", "x" * 48 + "two"])
    assert torch.equal(first, second)


def test_hits_and_misses_are_counted() -> None:
    vectors = cache(10)
    vectors.of(["a", "b"])
    vectors.of(["b", "c"])
    assert (vectors.hits, vectors.misses) == (1, 3)


def test_the_least_recently_used_type_goes_first() -> None:
    vectors = cache(2)
    for asked in (["a"], ["b"], ["a"], ["c"]):
        vectors.of(asked)
    misses = vectors.misses
    vectors.of(["a"])
    assert vectors.misses == misses
    vectors.of(["b"])
    assert vectors.misses == misses + 1


def test_what_is_given_out_does_not_change_when_the_cache_does() -> None:
    vectors = cache(1)
    first = vectors.of(["a"])
    copy = first.clone()
    for token in TYPES[:5]:
        vectors.of([token])
    assert torch.equal(first, copy)
