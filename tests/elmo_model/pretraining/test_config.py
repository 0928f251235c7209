"""Training settings from options files."""

import json
from pathlib import Path
from typing import Any

import pytest

from elmo_model.errors import OptionsError
from elmo_model.pretraining.config import PRESETS, TrainingOptions, preset_path, read_training_config


def test_missing_keys_take_the_published_values() -> None:
    options = TrainingOptions.from_mapping({"batch_size": 7, "some_other_key": 1})
    assert options.batch_size == 7
    assert (options.unroll_steps, options.dropout, options.n_negative_samples_batch) == (20, 0.1, 8192)
    assert (options.optimizer, options.learning_rate, options.all_clip_norm_val) == ("adagrad", 0.2, 10.0)
    assert TrainingOptions.from_mapping(options.to_mapping()) == options


@pytest.mark.parametrize("name", PRESETS)
def test_presets_are_usable(name: str) -> None:
    shape, training = read_training_config(preset_path(name))
    sizes = {"mini": (1024, 128), "small": (1024, 128), "medium": (2048, 256), "original": (4096, 512)}
    assert (shape.lstm.dim, shape.lstm.projection_dim) == sizes[name]
    assert shape.lstm.n_layers == 2
    assert shape.lstm.use_skip_connections
    assert shape.char_cnn is not None
    assert shape.char_cnn.n_filters == (512 if name == "mini" else 2048)
    assert training.batch_size == 128


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"batch_size": 0}, "batch_size is 0; it must be a whole number"),
        ({"batch_size": True}, "batch_size is True"),
        ({"unroll_steps": 2.5}, "unroll_steps is 2.5"),
        ({"dropout": 1.0}, "dropout is 1.0; it must be a number from 0 to below 1"),
        ({"learning_rate": -1}, "learning_rate is -1"),
        ({"all_clip_norm_val": 0}, "all_clip_norm_val is 0"),
        ({"optimizer": "sgd"}, "optimizer is 'sgd'; it must be one of adagrad, adam"),
        ({"sample_softmax": "yes"}, "sample_softmax is 'yes'"),
        ({"share_embedding_softmax": True}, "share_embedding_softmax is true"),
        ({"lstm": {}}, "lstm.dim is missing"),
    ],
)
def test_bad_values_are_named_with_the_file(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    mapping = json.loads(preset_path("mini").read_text()) | changes
    path = tmp_path / "options.json"
    path.write_text(json.dumps(mapping))
    with pytest.raises(OptionsError) as error:
        read_training_config(path)
    assert str(error.value).startswith(f"{path}: {message}")


def test_a_file_that_is_not_json_is_named(tmp_path: Path) -> None:
    path = tmp_path / "options.json"
    path.write_text("{")
    with pytest.raises(OptionsError, match="not a JSON file"):
        read_training_config(path)
    with pytest.raises(OptionsError, match="can't be read"):
        read_training_config(tmp_path / "none.json")
