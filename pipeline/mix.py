"""The weights of a trained mix of layers, from a JSON file to a setting of the store."""

import json
import math
from pathlib import Path
from typing import Any

from pipeline.derivations import MIX
from pipeline.errors import ConfigError

_HINT = 'such as {"weights": [0.2, 0.3, 0.5], "gamma": 1.1}, or "raw_weights" for those before the softmax'


def read_mix(path: str | Path) -> str:
    """The `layers` setting that stores the mix in a JSON file.

    The file holds an object with `weights`, which sum to 1, or `raw_weights`, which a softmax turns into such, one for
    each layer and the lowest first; and maybe `gamma`, 1 by default, by which all are scaled.

    Raises:
        ConfigError: The file cannot be read, or is no such object; says what is wrong.
    """
    try:
        mix: Any = json.loads(Path(path).read_bytes())
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: no JSON file: {error}") from None
    if not isinstance(mix, dict) or ("weights" in mix) == ("raw_weights" in mix):
        raise ConfigError(f"{path}: must hold an object with either 'weights' or 'raw_weights', {_HINT}")
    if mix.get("layer_norm"):
        raise ConfigError(
            f"{path}: was trained with layer norm, whose result depends on the batch; it cannot be stored"
        )
    name = "weights" if "weights" in mix else "raw_weights"
    weights, gamma = mix[name], mix.get("gamma", 1.0)
    if not isinstance(weights, list) or not weights or not all(_is_number(value) for value in (*weights, gamma)):
        raise ConfigError(f"{path}: {name} must be a list of numbers and gamma a number, {_HINT}")
    if name == "raw_weights":
        shares = [math.exp(weight - max(weights)) for weight in weights]
        weights = [share / sum(shares) for share in shares]
    elif not math.isclose(sum(weights), 1.0, abs_tol=1e-4):
        raise ConfigError(
            f"{path}: weights sum to {sum(weights):g}, not to 1; those before the softmax are raw_weights"
        )
    return MIX + ",".join(repr(gamma * weight) for weight in weights)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
