import json
from pathlib import Path
from typing import Any

import pytest

from elmo_model.errors import OptionsError
from elmo_model.options import ElmoOptions, read_options
from support.bilms import SEEDED, SEEDED_MODELS, tiny_options


@pytest.mark.parametrize("name", SEEDED_MODELS)
def test_options_survive_the_way_through_their_original_keys(name: str) -> None:
    options = read_options(SEEDED / name / "options.json")
    assert ElmoOptions.from_mapping(json.loads(json.dumps(options.to_mapping()))) == options


def test_keys_that_the_originals_may_leave_out_have_their_defaults() -> None:
    lstm = {"dim": 8, "projection_dim": 4}
    char_cnn = {
        "embedding": {"dim": 4},
        "filters": [[1, 4]],
        "activation": "tanh",
        "max_characters_per_token": 50,
    }
    options = ElmoOptions.from_mapping({"lstm": lstm, "char_cnn": char_cnn, "an_unknown_key": 1})
    assert options.lstm.n_layers == 1
    assert options.lstm.cell_clip is None
    assert not options.lstm.use_skip_connections
    assert options.bidirectional
    assert options.char_cnn is not None
    assert options.char_cnn.n_highway == 0


def test_a_clip_of_zero_is_none() -> None:
    options = ElmoOptions.from_mapping(tiny_options(cell_clip=0, proj_clip=0.0))
    assert options.lstm.cell_clip is None
    assert options.lstm.proj_clip is None


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("lstm", None, "lstm is missing"),
        ("lstm", 3, "lstm is 3; it must be an object"),
        ("lstm.dim", "big", "lstm.dim is 'big'; it must be a whole number"),
        ("lstm.dim", None, "lstm.dim is missing"),
        ("lstm.dim", True, "lstm.dim is True"),
        ("lstm.n_layers", 0, "lstm.n_layers is 0; it must be a whole number of at least 1"),
        ("lstm.cell_clip", -1, "lstm.cell_clip is -1.0; it must be a number above 0, or null"),
        ("lstm.proj_clip", float("nan"), "lstm.proj_clip is nan"),
        ("lstm.use_skip_connections", "yes", "lstm.use_skip_connections is 'yes'; it must be true or false"),
        ("bidirectional", 1, "bidirectional is 1; it must be true or false"),
        ("char_cnn.activation", "gelu", "char_cnn.activation is 'gelu'; it must be 'relu' or 'tanh'"),
        ("char_cnn.n_characters", 300, "char_cnn.n_characters is 300; it must be 262, or 261"),
        ("char_cnn.max_characters_per_token", 2, "it must be at least 3"),
        ("char_cnn.filters", [], "char_cnn.filters is empty"),
        ("char_cnn.filters", [[1, 4], [99, 4]], r"char_cnn.filters has \[99, 4\]; widths must be 1 to"),
        ("char_cnn.filters", [[1]], "it must be a list of"),
        ("char_cnn.embedding", None, "char_cnn.embedding is missing"),
    ],
)
def test_unusable_options_are_refused_with_file_key_and_value(path: str, value: Any, said: str, tmp_path: Path) -> None:
    mapping = tiny_options()
    section: Any = mapping
    *parents, key = path.split(".")
    for parent in parents:
        section = section[parent]
    section[key] = value
    file = tmp_path / "options.json"
    file.write_text(json.dumps(mapping))
    with pytest.raises(OptionsError, match=said) as caught:
        read_options(file)
    assert str(caught.value).startswith(str(file))


@pytest.mark.parametrize("content", [b"{", b"\xff\xfe", b"[1]", b"[" * 100_000])
def test_a_file_that_is_no_json_object_is_refused(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "options.json"
    file.write_bytes(content)
    with pytest.raises(OptionsError, match="JSON"):
        read_options(file)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(OptionsError, match=r"nowhere.json: can't be read"):
        read_options(tmp_path / "nowhere.json")
