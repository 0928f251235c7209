"""Settings of a pretraining run, read from the same options file as the model's shape, under the original keys."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

from elmo_model.errors import OptionsError
from elmo_model.options import ElmoOptions

PRESETS = ("mini", "small", "medium", "original")
OPTIMIZERS = ("adagrad", "adam")
SCHEDULES = ("constant", "cosine")


@dataclass(frozen=True, kw_only=True)
class TrainingOptions:
    """How a model is trained; names are those of the original options file where it has them.

    Attributes:
        batch_size: Rows of a window, of each process.
        unroll_steps: Tokens of a row in a window.
        dropout: Rate on the input of each layer and on the top output.
        carry_state: Whether a sentence starts from the state that the one before it has left, as published; or else
            from the zero state, as sentences do when features are extracted.
        sample_softmax: Whether to train on sampled candidates; else on all words.
        n_negative_samples_batch: Candidates of the sampled softmax.
        all_clip_norm_val: Bound on the global norm of the gradient of (loss * unroll_steps); None for none.
        optimizer: `adagrad` as published, or `adam`.
        learning_rate: Its highest value.
        schedule: `constant`, or `cosine`: falling to 2 % of the highest value at the end of the run.
        warmup_steps: Steps over which the rate rises from zero.
        n_epochs: Passes over the corpus, if the run isn't bounded otherwise.
        n_train_tokens: Tokens of the corpus as someone noted them; only compared with what is counted.
    """

    batch_size: int = 128
    unroll_steps: int = 20
    dropout: float = 0.1
    carry_state: bool = True
    sample_softmax: bool = True
    n_negative_samples_batch: int = 8192
    all_clip_norm_val: float | None = 10.0
    optimizer: str = "adagrad"
    learning_rate: float = 0.2
    schedule: str = "constant"
    warmup_steps: int = 0
    n_epochs: int = 10
    n_train_tokens: int | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        for name in ("batch_size", "unroll_steps", "n_negative_samples_batch", "n_epochs"):
            _require(name, self, lambda value: _is_number(value, int) and value >= 1, "a whole number of at least 1")
        _require(
            "warmup_steps", self, lambda value: _is_number(value, int) and value >= 0, "a whole number of at least 0"
        )
        _require("dropout", self, lambda value: _is_number(value) and 0 <= value < 1, "a number from 0 to below 1")
        _require("learning_rate", self, lambda value: _is_number(value) and value > 0, "a number above 0")
        _require(
            "all_clip_norm_val",
            self,
            lambda value: value is None or (_is_number(value) and value > 0),
            "a number above 0, or null",
        )
        for name in ("sample_softmax", "carry_state"):
            _require(name, self, lambda value: isinstance(value, bool), "true or false")
        _require("optimizer", self, lambda value: value in OPTIMIZERS, f"one of {', '.join(OPTIMIZERS)}")
        _require("schedule", self, lambda value: value in SCHEDULES, f"one of {', '.join(SCHEDULES)}")

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any]) -> TrainingOptions:
        """The settings in the parsed JSON of an options file; missing keys take their defaults, others are ignored.

        Raises:
            OptionsError: A value is out of its range, or asks for something that doesn't exist here.
        """
        if mapping.get("share_embedding_softmax"):
            raise OptionsError(
                "share_embedding_softmax is true; the softmax can't share the word table here; set it to false"
            )
        names = [option.name for option in dataclasses.fields(cls)]
        return cls(**{name: mapping[name] for name in names if name in mapping})

    def to_mapping(self) -> dict[str, Any]:
        """The settings as JSON values; `from_mapping` gives them back."""
        return dataclasses.asdict(self)


def read_training_config(path: str | Path) -> tuple[ElmoOptions, TrainingOptions]:
    """The shape of the model and the settings of its training in an options file.

    Raises:
        OptionsError: The file can't be read, or holds unusable options; names the file.
    """
    try:
        mapping = json.loads(Path(path).read_bytes())
        if not isinstance(mapping, dict):
            raise OptionsError(f"holds a JSON {type(mapping).__name__}; options are an object with 'lstm'")
        return ElmoOptions.from_mapping(mapping), TrainingOptions.from_mapping(mapping)
    except OSError as error:
        raise OptionsError(f"{path}: can't be read: {error.strerror}") from None
    except OptionsError as error:
        raise OptionsError(f"{path}: {error}") from None
    except (ValueError, RecursionError) as error:
        raise OptionsError(f"{path}: not a JSON file: {error}") from None


def preset_path(name: str) -> Path:
    """The packaged options file of a named size, one of `PRESETS`."""
    return Path(str(files("elmo_model.pretraining") / "presets" / f"{name}.json"))


def _require(name: str, options: TrainingOptions, allowed: Any, words: str) -> None:
    value = getattr(options, name)
    if not allowed(value):
        raise OptionsError(f"{name} is {value!r}; it must be {words}")


def _is_number(value: object, kind: Any = (int, float)) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)
