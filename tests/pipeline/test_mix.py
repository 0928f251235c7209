import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline.errors import ConfigError
from pipeline.mix import read_mix


def written(tmp_path: Path, content: Any) -> Path:
    path = tmp_path / "weights.json"
    path.write_text(json.dumps(content))
    return path


def weights_of(layers: str) -> list[float]:
    assert layers.startswith("mix:")
    return [float(part) for part in layers.removeprefix("mix:").split(",")]


def test_final_weights_are_scaled_by_gamma(tmp_path: Path) -> None:
    layers = read_mix(written(tmp_path, {"weights": [0.2, 0.3, 0.5], "gamma": 2}))
    assert weights_of(layers) == pytest.approx([0.4, 0.6, 1.0])
    assert weights_of(read_mix(written(tmp_path, {"weights": [1, 0, 0]}))) == [1, 0, 0]


def test_raw_weights_go_through_the_softmax(tmp_path: Path) -> None:
    layers = read_mix(written(tmp_path, {"raw_weights": [1.0, 0.0, 0.0]}))
    np.testing.assert_allclose(weights_of(layers), [0.5761, 0.2119, 0.2119], atol=1e-4)
    assert weights_of(read_mix(written(tmp_path, {"raw_weights": [-9e10, 1.0, -9e10]}))) == [0, 1, 0]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({}, "either"),
        ({"weights": [1.0], "raw_weights": [0.0]}, "either"),
        ([0.5, 0.5], "object"),
        ({"weights": [0.5, 0.4]}, "sum to 0.9, not to 1"),
        ({"weights": []}, "list of numbers"),
        ({"weights": ["1"]}, "list of numbers"),
        ({"weights": [True]}, "list of numbers"),
        ({"raw_weights": [0.0, math.nan]}, "list of numbers"),
        ({"weights": [1.0], "gamma": None}, "gamma a number"),
        ({"weights": [1.0], "layer_norm": "bilm-tf"}, "layer norm"),
    ],
)
def test_what_is_no_mix_is_refused_with_the_file(tmp_path: Path, content: Any, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_mix(written(tmp_path, content))
    assert said in str(caught.value) and "weights.json" in str(caught.value)


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    (tmp_path / "text.json").write_text("0.5 0.5")
    for name in ("text.json", "absent.json"):
        with pytest.raises(ConfigError, match=name):
            read_mix(tmp_path / name)
