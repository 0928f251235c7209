"""From the raw columns of an encoder to the columns that are stored: which layers, and what is computed from them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import ConfigError
from pipeline.pooling import pool_names, pooled
from pipeline.schema import Column, RowAxis

NAMED_CHOICES = ("all", "top", "average")
MIX = "mix:"


@dataclass(frozen=True, kw_only=True)
class Selection:
    """What a dump computes and stores: raw columns, or one sum of layers; a row a token, a sentence or a span.

    Attributes:
        raw: The raw columns that the encoder must compute.
        stored: The columns that are written.
        sum_name: The name of the sum of layers, if that is what is stored or pooled.
        layer_weights: The weight of each published layer in that sum, lowest first.
        pools: How tokens are pooled; by none, each token is stored.
        pooled_rows: What one row is pooled over.
    """

    raw: tuple[Column, ...]
    stored: tuple[Column, ...]
    sum_name: str | None = None
    layer_weights: tuple[float, ...] = ()
    pools: tuple[str, ...] = ()
    pooled_rows: RowAxis = "sentence"

    def derive(
        self,
        computed: Mapping[str, NDArray[np.float32]],
        lengths: Sequence[int],
        spans: Sequence[Sequence[tuple[int, int]]] = (),
    ) -> dict[str, NDArray[np.float32]]:
        """The stored columns of a batch, from the raw ones (tokens, width).

        Args:
            computed: The raw columns.
            lengths: Tokens of each sentence.
            spans: Of each sentence, if they are what is pooled over.

        Returns:
            For each stored column float32 (tokens, width), or (sentences, width) or (spans, width) if it is pooled.
        """
        if self.sum_name is not None:
            computed = {self.sum_name: self._sum_of_layers(computed)}
        if not self.pools:
            return dict(computed)
        ends = list(accumulate(lengths, initial=0))
        bounds = list(pairwise(ends))
        if self.pooled_rows == "span":
            bounds = [
                (first + start, first + end)
                for first, chosen in zip(ends[:-1], spans, strict=True)
                for start, end in chosen
            ]
        return {f"{name}_{how}": pooled(rows, bounds, how=how) for name, rows in computed.items() for how in self.pools}

    def _sum_of_layers(self, computed: Mapping[str, NDArray[np.float32]]) -> NDArray[np.float32]:
        parts = (
            np.float32(weight) * np.concatenate([computed[name] for name in names], axis=1)
            for weight, names in zip(self.layer_weights, layer_columns(self.raw), strict=True)
        )
        total = next(parts)
        for part in parts:  # one at a time, since a long protein's layers are large
            total += part
        return total


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


def select_columns(columns: Sequence[Column], layers: str, *, pool: str = "", spans: bool = False) -> Selection:
    """The selection that the settings of a store ask for.

    Args:
        columns: All that the encoder can compute.
        layers: `all`, `top`, `average`, layer numbers such as `0,2`, or `mix:` and a weight for each layer.
        pool: How several tokens become one row, such as `mean` or `mean,max`; empty for a row a token.
        spans: Whether those are the tokens of a span, or else of a sentence.

    Raises:
        ConfigError: The choice is unknown, names a layer that the model does not have, or lacks a weight.
    """
    numbers = sorted({column.layer for column in columns if column.layer is not None})
    if layers == "all":
        selection = Selection(raw=tuple(columns), stored=tuple(columns))
    elif layers == "average":
        share = 1 / len(numbers) if numbers else 1.0
        words = f"mean of layers {', '.join(map(str, numbers))}, each as published"
        selection = _layer_sum("average", columns, (share,) * len(numbers), words)
    elif layers.startswith(MIX):
        weights = _mix_weights(layers, numbers)
        shown = " + ".join(f"{weight:g} x layer {number}" for weight, number in zip(weights, numbers, strict=True))
        selection = _layer_sum("mix", columns, weights, f"{shown}, each as published")
    else:
        wanted = {numbers[-1]} if layers == "top" and numbers else _layer_numbers(layers, numbers)
        chosen = tuple(column for column in columns if column.layer in wanted)
        selection = Selection(raw=chosen, stored=chosen)
    return _with_pools(selection, pool_names(pool), "span" if spans else "sentence")


def _layer_sum(name: str, columns: Sequence[Column], weights: tuple[float, ...], words: str) -> Selection:
    published = layer_columns(columns)
    widths = {column.name: column.width for column in columns}
    totals = {sum(widths[column] for column in names) for names in published}
    if len(totals) != 1:
        raise ConfigError(f"layers {name!r} needs layers of one width, not {sorted(totals)}")
    joined = len(published[-1]) > 1 or any(column.direction == "both" for column in columns)
    total = Column(name=name, width=totals.pop(), layer=None, direction="both" if joined else "none", derived=words)
    return Selection(raw=tuple(columns), stored=(total,), sum_name=name, layer_weights=weights)


def _with_pools(selection: Selection, pools: tuple[str, ...], rows: RowAxis) -> Selection:
    if not pools:
        return selection
    over = "tokens of each span" if rows == "span" else "tokens"
    stored = tuple(
        Column(
            name=f"{column.name}_{how}",
            rows=rows,
            width=column.width,
            layer=None,
            direction=column.direction,
            derived=f"{how} over the {over} of {column.name}" + (f" ({column.derived})" if column.derived else ""),
        )
        for column in selection.stored
        for how in pools
    )
    return replace(selection, stored=stored, pools=pools, pooled_rows=rows)


def _mix_weights(layers: str, numbers: Sequence[int]) -> tuple[float, ...]:
    try:
        weights = tuple(float(part) for part in layers.removeprefix(MIX).split(","))
    except ValueError:
        weights = ()
    if len(weights) != len(numbers) or not all(math.isfinite(weight) for weight in weights):
        raise ConfigError(
            f"layers {layers!r}: this model has the layers {','.join(map(str, numbers))}, so a mix has {len(numbers)} "
            "numbers, one a layer"
        )
    return weights


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
