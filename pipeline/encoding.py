"""The seam between a model and the pipeline."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pipeline.config import Precision
from pipeline.schema import Column


@dataclass(frozen=True, kw_only=True)
class EncoderSpec:
    """What an encoder gives, known without loading its weights.

    Attributes:
        family: For example `elmo`.
        columns: The raw columns it can compute, in order.
        model_digest: Of everything in the model's files that changes its numbers.
        numerics: Further settings that change its numbers, for the fingerprint.
    """

    family: str
    columns: tuple[Column, ...]
    model_digest: str
    numerics: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Encoded:
    """The features of a batch.

    Attributes:
        columns: For each column asked for, float32 (tokens of all sentences in the order given, width), or
            (sentences, width) for a sentence column.
        counts: What a user should know of the input, such as `truncated_tokens` or `unknown_words`.
    """

    columns: dict[str, NDArray[np.float32]]
    counts: dict[str, int] = field(default_factory=dict)


class Encoder(Protocol):
    """A loaded model."""

    @property
    def runtime(self) -> Mapping[str, str]:
        """What really runs, for receipts: `device`, `kernel` and why, library versions."""
        ...

    def encode(self, sentences: Sequence[Sequence[str]]) -> Encoded:
        """The features of the sentences, in the order given; a sentence may have no tokens.

        Raises:
            EncoderOutOfMemoryError: The batch does not fit; smaller ones may.
            DeviceLostError: Nothing further can be computed in this process.
        """
        ...


class EncoderFactory(Protocol):
    """A small picklable description of a model, shipped to workers in place of its weights."""

    def describe(self) -> EncoderSpec:
        """What the encoder gives, without loading weights into memory."""
        ...

    def check(self, *, device: str, precision: Precision, carried_state: bool) -> None:
        """Finds out, without loading weights, whether `load` can give this on this machine.

        Raises:
            ConfigError: It cannot; says why.
        """
        ...

    def load(self, *, columns: Sequence[str], device: str, precision: Precision, carried_state: bool) -> Encoder:
        """The loaded model, computing only the raw columns named; once per process.

        Raises:
            ConfigError: The device or precision cannot be had here, or the family has no carried state.
        """
        ...
