"""The options of a biLM, read from the `options.json` of the original implementations."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from elmo_model.errors import OptionsError

Activation = Literal["relu", "tanh"]

TRAINING_CHARACTERS = 261
PREDICTION_CHARACTERS = 262


@dataclass(frozen=True, kw_only=True)
class LstmOptions:
    """Sizes and clips of the LSTM stacks.

    Attributes:
        dim: Cells of a layer (c).
        projection_dim: Width of a layer's output, and of a token vector (p).
        n_layers: LSTM layers in each direction (L).
        cell_clip: Bound on the cell state; None for none.
        proj_clip: Bound on the projected output; None for none.
        use_skip_connections: Whether layers from the second on add their input to their output.
    """

    dim: int
    projection_dim: int
    n_layers: int = 1
    cell_clip: float | None = None
    proj_clip: float | None = None
    use_skip_connections: bool = False

    def __post_init__(self) -> None:
        _require_counts("lstm", self, "dim", "projection_dim", "n_layers")
        for name in ("cell_clip", "proj_clip"):
            clip = getattr(self, name)
            if clip is not None and not 0 < clip < float("inf"):
                raise OptionsError(f"lstm.{name} is {clip!r}; it must be a number above 0, or null for no clip")


@dataclass(frozen=True, kw_only=True)
class CharCnnOptions:
    """Sizes of the character encoder.

    Attributes:
        embedding_dim: Width of a character vector (d).
        filters: Filter banks as (width in characters, number of filters).
        activation: Applied after the maximum over positions.
        n_highway: Highway layers after the convolutions.
        max_characters_per_token: Length of a character row (C), its two word marks included.
        n_characters: 262, or 261 in the options of a training run; the weights have 261 rows either way.
    """

    embedding_dim: int
    filters: tuple[tuple[int, int], ...]
    activation: Activation = "relu"
    n_highway: int = 0
    max_characters_per_token: int = 50
    n_characters: int = PREDICTION_CHARACTERS

    def __post_init__(self) -> None:
        _require_counts("char_cnn", self, "embedding_dim", "max_characters_per_token")
        _require_counts("char_cnn", self, "n_highway", least=0)
        if self.max_characters_per_token < 3:
            raise OptionsError(
                f"char_cnn.max_characters_per_token is {self.max_characters_per_token}; it must be at least 3, "
                "since two positions hold the word's begin and end marks"
            )
        if self.activation not in ("relu", "tanh"):
            raise OptionsError(f"char_cnn.activation is {self.activation!r}; it must be 'relu' or 'tanh'")
        if self.n_characters not in (TRAINING_CHARACTERS, PREDICTION_CHARACTERS):
            raise OptionsError(
                f"char_cnn.n_characters is {self.n_characters!r}; it must be {PREDICTION_CHARACTERS}, "
                f"or {TRAINING_CHARACTERS} as in training"
            )
        if not self.filters:
            raise OptionsError("char_cnn.filters is empty; it must list at least one [width, count]")
        for width, count in self.filters:
            if not 1 <= width <= self.max_characters_per_token or count < 1:
                raise OptionsError(
                    f"char_cnn.filters has [{width}, {count}]; widths must be 1 to max_characters_per_token "
                    f"({self.max_characters_per_token}) and counts at least 1"
                )

    @property
    def n_filters(self) -> int:
        """Filters of all banks together (F), the width of the highway layers."""
        return sum(count for _, count in self.filters)


@dataclass(frozen=True, kw_only=True)
class ElmoOptions:
    """Everything that fixes the shape of a biLM.

    Attributes:
        lstm: The LSTM stacks.
        char_cnn: The character encoder; None for a model that reads words from a vocabulary.
        bidirectional: False for a model with the forward direction only.
    """

    lstm: LstmOptions
    char_cnn: CharCnnOptions | None
    bidirectional: bool = True

    @property
    def directions(self) -> tuple[str, ...]:
        """Names of the directions the model has, in the order of its columns."""
        return ("forward", "backward") if self.bidirectional else ("forward",)

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any]) -> "ElmoOptions":
        """Options from the parsed JSON of an options file; unknown keys are ignored.

        A clip of 0 counts as none, as in AllenNLP (bilm-tf would clip every value to 0).

        Raises:
            OptionsError: If a key is missing, or a value is of the wrong type or out of range.
        """
        lstm = _section(mapping, "lstm")
        if lstm is None:
            raise OptionsError("lstm is missing; it must be an object with 'dim' and 'projection_dim'")
        char_cnn = _section(mapping, "char_cnn")
        return cls(
            lstm=LstmOptions(
                dim=_integer(lstm, "lstm", "dim"),
                projection_dim=_integer(lstm, "lstm", "projection_dim"),
                n_layers=_integer(lstm, "lstm", "n_layers", default=1),
                cell_clip=_clip(lstm, "cell_clip"),
                proj_clip=_clip(lstm, "proj_clip"),
                use_skip_connections=_boolean(lstm, "lstm.use_skip_connections", default=False),
            ),
            char_cnn=None if char_cnn is None else _char_cnn(char_cnn),
            bidirectional=_boolean(mapping, "bidirectional", default=True),
        )

    def to_mapping(self) -> dict[str, Any]:
        """The options under their original keys, ready for JSON; `from_mapping` gives them back."""
        lstm = self.lstm
        mapping: dict[str, Any] = {
            "bidirectional": self.bidirectional,
            "lstm": {
                "dim": lstm.dim,
                "projection_dim": lstm.projection_dim,
                "n_layers": lstm.n_layers,
                "cell_clip": lstm.cell_clip,
                "proj_clip": lstm.proj_clip,
                "use_skip_connections": lstm.use_skip_connections,
            },
        }
        if self.char_cnn is not None:
            mapping["char_cnn"] = {
                "embedding": {"dim": self.char_cnn.embedding_dim},
                "filters": [list(bank) for bank in self.char_cnn.filters],
                "activation": self.char_cnn.activation,
                "n_highway": self.char_cnn.n_highway,
                "max_characters_per_token": self.char_cnn.max_characters_per_token,
                "n_characters": self.char_cnn.n_characters,
            }
        return mapping


def read_options(path: str | Path) -> ElmoOptions:
    """The options in a JSON file.

    Raises:
        OptionsError: If the file can't be read, isn't JSON, or holds unusable options; names the file.
    """
    try:
        mapping = json.loads(Path(path).read_bytes())
    except OSError as error:
        raise OptionsError(f"{path}: can't be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise OptionsError(f"{path}: not a JSON file: {error}") from None
    if not isinstance(mapping, dict):
        raise OptionsError(f"{path}: holds a JSON {type(mapping).__name__}; options are an object with 'lstm'")
    try:
        return ElmoOptions.from_mapping(mapping)
    except OptionsError as error:
        raise OptionsError(f"{path}: {error}") from None


def _char_cnn(section: Mapping[str, Any]) -> CharCnnOptions:
    embedding = _section(section, "embedding")
    if embedding is None:
        raise OptionsError("char_cnn.embedding is missing; it must be an object with 'dim'")
    filters = section.get("filters")
    if not isinstance(filters, list) or not all(
        isinstance(bank, list) and len(bank) == 2 and all(_is_integer(number) for number in bank) for bank in filters
    ):
        raise OptionsError(f"char_cnn.filters is {filters!r}; it must be a list of [width, count]")
    return CharCnnOptions(
        embedding_dim=_integer(embedding, "char_cnn.embedding", "dim"),
        filters=tuple((width, count) for width, count in filters),
        activation=section.get("activation", "(missing)"),
        n_highway=_integer(section, "char_cnn", "n_highway", default=0),
        max_characters_per_token=_integer(section, "char_cnn", "max_characters_per_token"),
        n_characters=_integer(section, "char_cnn", "n_characters", default=PREDICTION_CHARACTERS),
    )


def _section(mapping: Mapping[str, Any], key: str) -> Mapping[str, Any] | None:
    section = mapping.get(key)
    if section is not None and not isinstance(section, dict):
        raise OptionsError(f"{key} is {section!r}; it must be an object")
    return section


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _integer(section: Mapping[str, Any], name: str, key: str, *, default: int | None = None) -> int:
    value = section.get(key, default)
    if not isinstance(value, int) or isinstance(value, bool):
        raise OptionsError(f"{name}.{key} is {'missing' if value is None else repr(value)}; it must be a whole number")
    return value


def _boolean(section: Mapping[str, Any], name: str, *, default: bool) -> bool:
    value = section.get(name.rpartition(".")[2], default)
    if not isinstance(value, bool):
        raise OptionsError(f"{name} is {value!r}; it must be true or false")
    return value


def _clip(section: Mapping[str, Any], key: str) -> float | None:
    value = section.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise OptionsError(f"lstm.{key} is {value!r}; it must be a number above 0, or null for no clip")
    return float(value) or None


def _require_counts(section: str, options: object, *names: str, least: int = 1) -> None:
    for name in names:
        value = getattr(options, name)
        if not _is_integer(value) or value < least:
            raise OptionsError(f"{section}.{name} is {value!r}; it must be a whole number of at least {least}")
