from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from pipeline.config import StoreConfig
from pipeline.derivations import layer_columns, select_columns
from pipeline.errors import ConfigError
from pipeline.schema import Column, Direction


def column(name: str, layer: int, direction: Direction = "none") -> Column:
    return Column(name=name, width=2, layer=layer, direction=direction)


BIDIRECTIONAL = (
    column("token", 0),
    column("forward_1", 1, "forward"),
    column("backward_1", 1, "backward"),
    column("forward_2", 2, "forward"),
    column("backward_2", 2, "backward"),
)
FORWARD_ONLY = (column("token", 0), column("forward_1", 1, "forward"))


def test_layers_are_the_published_ones_with_the_token_vector_twice() -> None:
    assert layer_columns(BIDIRECTIONAL) == [
        ("token", "token"),
        ("forward_1", "backward_1"),
        ("forward_2", "backward_2"),
    ]
    assert layer_columns(FORWARD_ONLY) == [("token",), ("forward_1",)]


@pytest.mark.parametrize(
    ("layers", "names"),
    [
        ("all", ["token", "forward_1", "backward_1", "forward_2", "backward_2"]),
        ("top", ["forward_2", "backward_2"]),
        ("0", ["token"]),
        ("0,2", ["token", "forward_2", "backward_2"]),
        ("1,1", ["forward_1", "backward_1"]),
    ],
)
def test_raw_choices_keep_their_names_and_are_all_that_is_computed(layers: str, names: list[str]) -> None:
    selection = select_columns(BIDIRECTIONAL, layers)
    assert [c.name for c in selection.stored] == names
    assert selection.raw == selection.stored


@pytest.mark.parametrize("layers", ["7", "0,7", "-1", "", "half", "0,,1"])
def test_an_unknown_layer_is_refused_with_those_there_are(layers: str) -> None:
    with pytest.raises(ConfigError, match="0,1,2") as caught:
        select_columns(BIDIRECTIONAL, layers)
    assert all(choice in str(caught.value) for choice in ("all", "top", "average"))


def test_the_average_is_the_plain_mean_of_the_published_layers_in_float32() -> None:
    computed = random_columns(5)
    selection = select_columns(BIDIRECTIONAL, "average")
    (stored,) = selection.stored
    assert stored.derived and stored.layer is None and stored.width == 4
    average = selection.derive(computed, [5])["average"]
    np.testing.assert_allclose(average, published(computed).mean(axis=0), atol=1e-6)
    assert average.dtype == np.float32


def test_the_average_of_one_direction_has_its_width() -> None:
    (stored,) = select_columns(FORWARD_ONLY, "average").stored
    assert stored.width == 2


def random_columns(tokens: int, seed: int = 0) -> dict[str, NDArray[np.float32]]:
    rng = np.random.default_rng(seed)
    return {c.name: rng.normal(size=(tokens, 2)).astype(np.float32) for c in BIDIRECTIONAL}


def published(computed: Mapping[str, NDArray[np.float32]]) -> NDArray[np.float32]:
    """All layers, (layers, tokens, 4)."""
    return np.stack([np.concatenate([computed[n] for n in names], 1) for names in layer_columns(BIDIRECTIONAL)])


def test_a_mix_is_the_weighted_sum_of_the_published_layers() -> None:
    computed = random_columns(5)
    selection = select_columns(BIDIRECTIONAL, "mix:0.5,-2.0,0.25")
    (stored,) = selection.stored
    assert stored.name == "mix" and stored.layer is None and stored.derived and "-2 x layer 1" in stored.derived
    wanted = np.einsum("l,ltw->tw", [0.5, -2.0, 0.25], published(computed))
    np.testing.assert_allclose(selection.derive(computed, [5])["mix"], wanted, atol=1e-6)


@pytest.mark.parametrize("layers", ["mix:", "mix:1,2", "mix:1,2,3,4", "mix:1,2,x", "mix:1,2,nan", "mix:1,2,inf"])
def test_a_mix_has_one_finite_number_a_layer(layers: str) -> None:
    with pytest.raises(ConfigError, match="3 numbers, one a layer"):
        select_columns(BIDIRECTIONAL, layers)


def test_pooled_columns_have_a_row_a_sentence_and_cannot_be_taken_for_layers() -> None:
    selection = select_columns(BIDIRECTIONAL, "top", pool="mean,last")
    assert [c.name for c in selection.raw] == ["forward_2", "backward_2"]
    assert [c.name for c in selection.stored] == [
        "forward_2_mean",
        "forward_2_last",
        "backward_2_mean",
        "backward_2_last",
    ]
    assert all(c.rows == "sentence" and c.layer is None and c.derived and c.width == 2 for c in selection.stored)
    assert layer_columns(selection.stored) == []


def test_pooling_takes_each_sentence_by_itself() -> None:
    computed = random_columns(6)
    derived = select_columns(BIDIRECTIONAL, "0", pool="mean,max,first,last").derive(
        {"token": computed["token"]}, [2, 0, 4]
    )
    rows = computed["token"]
    zero = np.zeros(2, np.float32)
    np.testing.assert_allclose(derived["token_mean"], [rows[:2].mean(0), zero, rows[2:].mean(0)], atol=1e-6)
    np.testing.assert_array_equal(derived["token_max"], [rows[:2].max(0), zero, rows[2:].max(0)])
    np.testing.assert_array_equal(derived["token_first"], [rows[0], zero, rows[2]])
    np.testing.assert_array_equal(derived["token_last"], [rows[1], zero, rows[5]])
    assert all(values.dtype == np.float32 for values in derived.values())


def test_spans_are_pooled_each_by_itself_wherever_they_overlap() -> None:
    computed = random_columns(6)
    selection = select_columns(BIDIRECTIONAL, "0", pool="mean,max,first,last", spans=True)
    assert all(c.rows == "span" and c.layer is None and "each span" in str(c.derived) for c in selection.stored)
    derived = selection.derive({"token": computed["token"]}, [2, 0, 4], [[(1, 2), (0, 2)], [], [(1, 4)]])
    first, second, third = computed["token"][1:2], computed["token"][:2], computed["token"][3:6]
    np.testing.assert_allclose(derived["token_mean"], [first[0], second.mean(0), third.mean(0)], atol=1e-6)
    np.testing.assert_array_equal(derived["token_max"], [first[0], second.max(0), third.max(0)])
    np.testing.assert_array_equal(derived["token_first"], [first[0], second[0], third[0]])
    np.testing.assert_array_equal(derived["token_last"], [first[0], second[1], third[2]])


def test_the_mean_of_a_very_long_sentence_is_exact() -> None:
    rows = (np.random.default_rng(1).normal(size=(40_000, 2)) + 1000).astype(np.float32)
    (mean,) = select_columns(BIDIRECTIONAL, "0", pool="mean").derive({"token": rows}, [len(rows)]).values()
    np.testing.assert_allclose(mean[0], rows.astype(np.float64).mean(axis=0), rtol=1e-7)


@given(st.lists(st.integers(0, 5), min_size=1, max_size=8), st.sampled_from(["all", "average", "mix:0.1,0.2,0.7"]))
def test_a_sentence_is_pooled_to_the_same_bits_in_any_batch(lengths: list[int], layers: str) -> None:
    selection = select_columns(BIDIRECTIONAL, layers, pool="mean,max")
    computed = random_columns(sum(lengths), seed=len(lengths))
    together = selection.derive(computed, lengths)
    start = 0
    for sentence, length in enumerate(lengths):
        alone = selection.derive({k: v[start : start + length] for k, v in computed.items()}, [length])
        start += length
        for name, values in together.items():
            np.testing.assert_array_equal(values[sentence], alone[name][0])


def test_average_and_mix_can_be_pooled_too() -> None:
    (stored,) = select_columns(BIDIRECTIONAL, "average", pool="mean").stored
    assert stored.name == "average_mean" and stored.derived is not None and "mean of layers 0, 1, 2" in stored.derived


@pytest.mark.parametrize("pool", ["sum", "mean,", "mean,mean", "mean max"])
def test_an_unknown_pool_is_refused_with_those_there_are(pool: str) -> None:
    with pytest.raises(ConfigError, match="mean, max, first, last"):
        StoreConfig(pool=pool)
