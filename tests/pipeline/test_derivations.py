import numpy as np
import pytest

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
    rng = np.random.default_rng(0)
    computed = {c.name: rng.normal(size=(5, 2)).astype(np.float32) for c in BIDIRECTIONAL}
    selection = select_columns(BIDIRECTIONAL, "average")
    (stored,) = selection.stored
    assert stored.derived and stored.layer is None and stored.width == 4
    average = selection.derive(computed)["average"]
    stacked = np.stack([np.concatenate([computed[n] for n in names], 1) for names in layer_columns(BIDIRECTIONAL)])
    np.testing.assert_allclose(average, stacked.mean(axis=0), atol=1e-6)
    assert average.dtype == np.float32


def test_the_average_of_one_direction_has_its_width() -> None:
    (stored,) = select_columns(FORWARD_ONLY, "average").stored
    assert stored.width == 2
