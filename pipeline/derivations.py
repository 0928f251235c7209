"""From the raw columns of an encoder to the columns that are stored: which layers, and what is computed from them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import ConfigError
from pipeline.schema import Column

NAMED_CHOICES = ("all", "top", "average")


@dataclass(frozen=True, kw_only=True)
class Selection:
    """What a dump computes and stores.

    Attributes:
        raw: The raw columns that the encoder must compute.
        stored: The columns that are written: some of the raw ones, or derived ones.
    """

    raw: tuple[Column, ...]
    stored: tuple[Column, ...]

    def derive(self, computed: Mapping[str, NDArray[np.float32]]) -> dict[str, NDArray[np.float32]]:
        """The stored columns of a batch, float32 (tokens, width), from the raw ones (tokens, width)."""
        if self.stored == self.raw:
            return dict(computed)
        layers = layer_columns(self.raw)
        total = np.concatenate([computed[name] for name in layers[0]], axis=1)
        for names in layers[1:]:
            total += np.concatenate([computed[name] for name in names], axis=1)
        total /= np.float32(len(layers))
        return {self.stored[0].name: total}


def layer_columns(columns: Sequence[Column]) -> list[tuple[str, ...]]:
    """For each published layer present, lowest first, the raw columns that make it up side by side.

    The published layout of a bidirectional model is `[forward; backward]` for an LSTM layer and the token vector
    twice for layer 0; a model of one direction has just the one half.
    """
    raw = [column for column in columns if column.layer is not None and column.derived is None]
    bidirectional = any(column.direction == "backward" for column in raw)
    layers: dict[int, list[str]] = {}
    for column in raw:
        assert column.layer is not None
        twice = bidirectional and column.direction == "none"
        layers.setdefault(column.layer, []).extend([column.name] * (2 if twice else 1))
    return [tuple(layers[layer]) for layer in sorted(layers)]


def select_columns(columns: Sequence[Column], layers: str) -> Selection:
    """The selection that `layers` asks for: `all`, `top`, `average`, or layer numbers such as `0,2`.

    Raises:
        ConfigError: The choice is unknown or names a layer that the model does not have.
    """
    numbers = sorted({column.layer for column in columns if column.layer is not None})
    if layers == "all":
        return Selection(raw=tuple(columns), stored=tuple(columns))
    if layers == "average":
        published = layer_columns(columns)
        widths = {column.name: column.width for column in columns}
        totals = {sum(widths[name] for name in names) for names in published}
        if len(totals) != 1:
            raise ConfigError(f"layers 'average' needs layers of one width, not {sorted(totals)}")
        average = Column(
            name="average",
            width=totals.pop(),
            layer=None,
            direction="both" if len(published[-1]) > 1 else "none",
            derived=f"mean of layers {', '.join(map(str, numbers))}, each as published",
        )
        return Selection(raw=tuple(columns), stored=(average,))
    wanted = {numbers[-1]} if layers == "top" and numbers else _layer_numbers(layers, numbers)
    chosen = tuple(column for column in columns if column.layer in wanted)
    return Selection(raw=chosen, stored=chosen)


def _layer_numbers(layers: str, numbers: Sequence[int]) -> set[int]:
    try:
        wanted = {int(part) for part in layers.split(",")}
    except ValueError:
        wanted = set()
    if not wanted or not wanted <= set(numbers):
        raise ConfigError(
            f"layers {layers!r}: this model has the layers {','.join(map(str, numbers))}; "
            f"give some of them, or one of {', '.join(NAMED_CHOICES)}"
        )
    return wanted
