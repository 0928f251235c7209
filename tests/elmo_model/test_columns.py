from elmo_model.columns import model_columns
from elmo_model.extractor import Extractor
from elmo_model.options import ElmoOptions, read_options
from support.bilms import SEEDED, random_bilm, tiny_options


def test_columns_are_known_from_the_options_alone() -> None:
    found = model_columns(read_options(SEEDED / "relu_l3_highway0" / "options.json"))
    assert [column.name for column in found] == [
        "token",
        "forward_1",
        "backward_1",
        "forward_2",
        "backward_2",
        "forward_3",
        "backward_3",
    ]
    assert [column.layer for column in found] == [0, 1, 1, 2, 2, 3, 3]
    assert {column.width for column in found} == {8}
    assert [column.direction for column in found[:3]] == [None, "forward", "backward"]


def test_a_one_directional_model_has_no_backward_columns() -> None:
    options = {**tiny_options(), "bidirectional": False}
    found = model_columns(ElmoOptions.from_mapping(options))
    assert [column.name for column in found] == ["token", "forward_1", "forward_2"]
    assert Extractor(random_bilm(options)).columns == found
