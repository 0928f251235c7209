"""The representations a biLM gives for each token, by name, known from its options alone."""

from collections.abc import Sequence
from dataclasses import dataclass

from elmo_model.options import ElmoOptions

TOKEN = "token"


@dataclass(frozen=True, kw_only=True)
class ModelColumn:
    """One representation of each token.

    Attributes:
        name: `token`, or direction and layer as in `forward_1`.
        width: Length of a vector (p).
        layer: 0 for the token vector, else the LSTM layer counted from 1.
        direction: `forward`, `backward`, or None for the token vector.
    """

    name: str
    width: int
    layer: int
    direction: str | None


def lstm_column(layer: int, direction: str) -> str:
    """The name of an LSTM layer's column; layers count from 1."""
    return f"{direction}_{layer}"


def model_columns(options: ElmoOptions) -> tuple[ModelColumn, ...]:
    """All columns of a model: `token`, then for each layer its directions, 2L + 1 for a bidirectional model."""
    return columns(n_layers=options.lstm.n_layers, width=options.lstm.projection_dim, directions=options.directions)


def columns(*, n_layers: int, width: int, directions: Sequence[str]) -> tuple[ModelColumn, ...]:
    """The columns of a stack of the given depth, width and directions."""
    lstm = (
        ModelColumn(name=lstm_column(layer, direction), width=width, layer=layer, direction=direction)
        for layer in range(1, n_layers + 1)
        for direction in directions
    )
    return (ModelColumn(name=TOKEN, width=width, layer=0, direction=None), *lstm)
