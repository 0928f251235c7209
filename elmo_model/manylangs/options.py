"""The options of an ELMoForManyLangs model: `config.json` and the network config that it points to."""

import json
import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from elmo_model.errors import OptionsError
from elmo_model.options import Activation, LstmOptions

CONFIG = "config.json"

EncoderName = Literal["elmo", "lstm"]
EmbedderName = Literal["cnn", "lstm"]

# A row holds `<bos>` as spelt out plus two marks, which the original program insists on.
_LEAST_CHARACTERS = 7

# What the two configs shipped with the original program hold; many published archives lack the file they point to.
_SHIPPED_NAMES = ("cnn_50_100_512_4096_sample.json", "cnn_0_100_512_4096_sample.json")
_SHIPPED: Mapping[str, Any] = {
    "encoder": {
        "name": "elmo",
        "projection_dim": 512,
        "cell_clip": 3,
        "proj_clip": 3,
        "dim": 4096,
        "n_layers": 2,
    },
    "token_embedder": {
        "name": "cnn",
        "activation": "relu",
        "filters": [[1, 32], [2, 32], [3, 64], [4, 128], [5, 256], [6, 512], [7, 1024]],
        "n_highway": 2,
        "word_dim": 100,
        "char_dim": 50,
        "max_characters_per_token": 50,
    },
}

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class EmbedderOptions:
    """Sizes of the token embedder.

    Attributes:
        name: `cnn`, or `lstm` (then for words only, which are looked up and projected).
        word_dim: Width of a word vector; 0 for none.
        char_dim: Width of a character vector; 0 for none.
        max_characters: Length of a character row (M), its two marks included; longer tokens are shortened, also where
            there are no characters. None for `lstm`, which shortens nothing.
        filters: Filter banks as (width in characters, number of filters); empty without characters.
        n_highway: Highway layers after the convolutions; 0 without characters.
        activation: Applied after the maximum over positions.
    """

    name: EmbedderName
    word_dim: int
    char_dim: int
    max_characters: int | None
    filters: tuple[tuple[int, int], ...]
    n_highway: int
    activation: Activation

    def __post_init__(self) -> None:
        if not self.word_dim and not self.char_dim:
            raise OptionsError(
                "token_embedder.word_dim and char_dim are both 0; a model reads words, characters or both"
            )
        if self.name == "lstm" and self.char_dim:
            raise OptionsError(
                f"token_embedder.name is 'lstm' with char_dim {self.char_dim}; such models never ran in the original "
                "program either, so there is nothing to compute: 'lstm' works with words only (char_dim 0)"
            )
        if self.max_characters is not None and self.max_characters < _LEAST_CHARACTERS:
            raise OptionsError(
                f"token_embedder.max_characters_per_token is {self.max_characters}; it must be at least "
                f"{_LEAST_CHARACTERS}"
            )
        if self.char_dim and not self.filters:
            raise OptionsError("token_embedder.filters is empty; a model with characters needs at least one")
        for width, count in self.filters:
            if not 1 <= width <= (self.max_characters or 0) or count < 1:
                raise OptionsError(
                    f"token_embedder.filters has [{width}, {count}]; widths must be 1 to max_characters_per_token "
                    f"({self.max_characters}) and counts at least 1"
                )

    @property
    def n_filters(self) -> int:
        """Filters of all banks together (F)."""
        return sum(count for _, count in self.filters)


@dataclass(frozen=True, kw_only=True)
class ManyLangsOptions:
    """Everything that fixes the shape of a model.

    Attributes:
        encoder: `elmo`, two clipped stacks as in the original ELMo; or `lstm`, one ordinary bidirectional LSTM.
        lstm: Sizes and clips; residuals are always on.
        embedder: The token embedder.
    """

    encoder: EncoderName
    lstm: LstmOptions
    embedder: EmbedderOptions


def read_options(folder: str | Path) -> ManyLangsOptions:
    """The options of the model in a folder.

    The network config is the file at `config_path` inside the folder, else the file of that base name in the folder,
    else the built-in one of that name; the last two, and no other substitution, are logged as a warning.

    Raises:
        OptionsError: If a file can't be read, isn't JSON or holds unusable options; names the file.
    """
    folder = Path(folder)
    config = folder / CONFIG
    config_path = _read_json(config).get("config_path")
    if not isinstance(config_path, str) or not config_path:
        shown = "missing" if config_path is None else repr(config_path)
        raise OptionsError(f"{config}: config_path is {shown}; it must name the network config, a JSON file")
    origin, mapping = _network_config(folder, config_path)
    try:
        return options_from_mapping(mapping)
    except OptionsError as error:
        raise OptionsError(f"{origin}: {error}") from None


def options_from_mapping(mapping: Mapping[str, Any]) -> ManyLangsOptions:
    """Options from the parsed JSON of a network config; unknown keys are ignored, a clip of 0 or null is none.

    Raises:
        OptionsError: If a key is missing, or a value is of the wrong type or out of range.
    """
    encoder, embedder = _section(mapping, "encoder"), _section(mapping, "token_embedder")
    name = _choice(embedder, "token_embedder.name", ("cnn", "lstm"))
    char_dim = _count(embedder, "token_embedder.char_dim", least=0)
    return ManyLangsOptions(
        encoder="elmo" if _choice(encoder, "encoder.name", ("elmo", "lstm")) == "elmo" else "lstm",
        lstm=LstmOptions(
            dim=_count(encoder, "encoder.dim"),
            projection_dim=_count(encoder, "encoder.projection_dim"),
            n_layers=_count(encoder, "encoder.n_layers"),
            cell_clip=_clip(encoder, "encoder.cell_clip"),
            proj_clip=_clip(encoder, "encoder.proj_clip"),
            use_skip_connections=True,
        ),
        embedder=EmbedderOptions(
            name="cnn" if name == "cnn" else "lstm",
            word_dim=_count(embedder, "token_embedder.word_dim", least=0),
            char_dim=char_dim,
            max_characters=_count(embedder, "token_embedder.max_characters_per_token") if name == "cnn" else None,
            filters=_filters(embedder) if name == "cnn" and char_dim else (),
            n_highway=_count(embedder, "token_embedder.n_highway", least=0) if name == "cnn" and char_dim else 0,
            activation="tanh"
            if char_dim and _choice(embedder, "token_embedder.activation", ("relu", "tanh")) == "tanh"
            else "relu",
        ),
    )


def _network_config(folder: Path, config_path: str) -> tuple[Path | str, Mapping[str, Any]]:
    """Where the network config was found, and its content."""
    inside = folder / config_path
    # A path that leads out of the folder is never followed: the folder is a download, the path somebody else's.
    if inside.is_file() and inside.resolve().is_relative_to(folder.resolve()):
        return inside, _read_json(inside)
    name = config_path.replace("\\", "/").rpartition("/")[2]
    beside = folder / name
    if name not in ("", ".", "..", CONFIG) and beside.is_file():
        _say_once(f"{folder / CONFIG}: config_path {config_path!r} isn't in the folder; using {beside}")
        return beside, _read_json(beside)
    if name in _SHIPPED_NAMES:
        _say_once(f"{folder / CONFIG}: config_path {config_path!r} isn't in the folder; using the built-in {name}")
        return f"built-in {name}", _SHIPPED
    raise OptionsError(
        f"{folder / CONFIG}: config_path is {config_path!r}, but the folder holds no such file and no {name!r}; "
        "copy the network config of the training run into the folder"
    )


@cache
def _say_once(substitution: str) -> None:
    """Logs a warning once in a process, which opens a folder several times."""
    _log.warning("%s", substitution)


def _read_json(path: Path) -> Mapping[str, Any]:
    try:
        mapping = json.loads(path.read_bytes())
    except OSError as error:
        raise OptionsError(f"{path}: can't be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise OptionsError(f"{path}: not a JSON file: {error}") from None
    if not isinstance(mapping, dict):
        raise OptionsError(f"{path}: holds a JSON {type(mapping).__name__}; it must be an object")
    return mapping


def _section(mapping: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    section = mapping.get(key)
    if not isinstance(section, dict):
        raise OptionsError(f"{key} is {'missing' if section is None else repr(section)}; it must be an object")
    return section


def _value(section: Mapping[str, Any], name: str) -> Any:
    return section.get(name.rpartition(".")[2])


def _choice(section: Mapping[str, Any], name: str, allowed: tuple[str, ...]) -> str:
    value = _value(section, name)
    if value not in allowed:
        shown = "missing" if value is None else repr(value)
        raise OptionsError(f"{name} is {shown}; it must be {' or '.join(map(repr, allowed))}")
    return str(value)


def _count(section: Mapping[str, Any], name: str, *, least: int = 1) -> int:
    value = _value(section, name)
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        shown = "missing" if value is None else repr(value)
        raise OptionsError(f"{name} is {shown}; it must be a whole number of at least {least}")
    return value


def _clip(section: Mapping[str, Any], name: str) -> float | None:
    value = _value(section, name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise OptionsError(f"{name} is {value!r}; it must be a number above 0, or null or 0 for no clip")
    return float(value) or None


def _filters(embedder: Mapping[str, Any]) -> tuple[tuple[int, int], ...]:
    filters = embedder.get("filters")
    if not isinstance(filters, list) or not all(
        isinstance(bank, list) and len(bank) == 2 and all(type(number) is int for number in bank) for bank in filters
    ):
        raise OptionsError(f"token_embedder.filters is {filters!r}; it must be a list of [width, count]")
    return tuple((width, count) for width, count in filters)
