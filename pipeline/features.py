"""One sentence of a store, and which of its columns make up the published layers."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from pipeline.derivations import layer_columns
from pipeline.errors import MissingColumnError
from pipeline.manifest import Manifest
from pipeline.records import Sentence
from pipeline.schema import Column
from pipeline.shards import ShardReader


@dataclass(frozen=True, kw_only=True, slots=True)
class Stacking:
    """How columns make up an array (layers, tokens, width).

    Attributes:
        layers: How many.
        width: Of each.
        names: The columns, each once.
        parts: What goes where: the number of the column, and its place in the array as an index.
        order: The numbers of the columns side by side in each layer, (layers, members), if all have one width.
    """

    layers: int
    width: int
    names: tuple[str, ...]
    parts: tuple[tuple[int, tuple[int, slice, slice]], ...]
    order: NDArray[np.intp] | None


class Layout:
    """The columns of a store, and the published layers that can be made of them.

    Attributes:
        chosen: The layers that the store was written with: `all`, or fewer.
    """

    def __init__(self, manifest: Manifest, url: str):
        self._url = url
        self._columns = {column.name: column for column in manifest.columns}
        self.chosen = manifest.settings.get("store", {}).get("layers", "all")
        self._layers: dict[int, tuple[str, ...]] = {}
        self._stackings: dict[tuple[int, ...] | None, Stacking] = {}
        directions = {column.direction for column in manifest.columns}
        if ("forward" in directions) == ("backward" in directions):
            raw = [c for c in manifest.columns if c.layer is not None and c.derived is None and c.rows == "token"]
            numbers = sorted({column.layer for column in raw if column.layer is not None})
            self._layers = dict(zip(numbers, layer_columns(raw), strict=True))

    def column(self, name: str) -> Column:
        """A column by its name.

        Raises:
            MissingColumnError: The store does not hold it.
        """
        column = self._columns.get(name)
        if column is None:
            raise MissingColumnError(f"{self._url} has no column {name!r}; it has {', '.join(self._columns)}")
        return column

    def stacking(self, only: Sequence[int] | None) -> Stacking:
        """How published layers are put together.

        Args:
            only: Layer numbers; None for all of the model, which a store written with fewer does not hold.

        Raises:
            MissingColumnError: The store does not hold them.
        """
        key = None if only is None else tuple(only)
        if key not in self._stackings:
            layers = self._layer_names(key)
            widths = [[self._columns[name].width for name in names] for names in layers]
            if len({sum(layer) for layer in widths}) != 1:
                raise MissingColumnError(f"{self._url} has layers of several widths: read its columns by name")
            names = tuple(dict.fromkeys(chain.from_iterable(layers)))
            parts = tuple(
                (
                    names.index(name),
                    (layer, slice(None), slice(sum(widths[layer][:place]), sum(widths[layer][: place + 1]))),
                )
                for layer, members in enumerate(layers)
                for place, name in enumerate(members)
            )
            numbers = [[names.index(name) for name in members] for members in layers]
            alike = len(set(chain.from_iterable(widths))) == 1
            order = np.array(numbers, np.intp) if alike else None
            self._stackings[key] = Stacking(
                layers=len(layers), width=sum(widths[0]), names=names, parts=parts, order=order
            )
        return self._stackings[key]

    def _layer_names(self, only: tuple[int, ...] | None) -> list[tuple[str, ...]]:
        """For each layer asked for, the names of the columns that make it up side by side."""
        if only is None and self.chosen == "all" and self._layers:
            return list(self._layers.values())
        if only and all(number in self._layers for number in only):
            return [self._layers[number] for number in only]
        if not self._layers:
            reason = "it does not have both directions of any"
        elif only is None:
            reason = f"it was written with the layers {self.chosen!r} alone"
        else:
            reason = (
                f"it holds the layers {', '.join(map(str, self._layers))}, not {', '.join(map(str, only)) or 'none'}"
            )
        raise MissingColumnError(
            f"{self._url} cannot give these layers: {reason}. Its columns are {', '.join(self._columns)}: "
            "read them by name with column(name), or name layers that it holds with layers(only=...)"
        )


class Features:
    """One sentence of a store; its vectors are read when they are asked for."""

    def __init__(self, layout: Layout, shard: ShardReader, row: int):
        self._layout = layout
        self._shard = shard
        self._row = row

    @cached_property
    def sentence(self) -> Sentence:
        """The sentence with its id, text, tokens and origin."""
        return self._shard.sentence(self._row)

    @cached_property
    def id(self) -> str:
        """The id of the sentence."""
        return self._shard.id(self._row)

    @property
    def tokens(self) -> tuple[str, ...]:
        """The tokens, one for each row of a token column."""
        return self.sentence.tokens

    @property
    def text(self) -> str | None:
        """The sentence as it stood in the input; None where that gave tokens only."""
        return self.sentence.text

    @property
    def spans(self) -> tuple[tuple[int, int], ...]:
        """The tokens, from one up to another, of each row of a span column; none in a store without such columns."""
        return self.sentence.spans

    @property
    def source(self) -> str:
        """The input file, relative to the corpus."""
        return self.sentence.source

    @property
    def line(self) -> int:
        """The 1-based line of the input file where the sentence starts."""
        return self.sentence.line

    def column(self, name: str, *, dtype: DTypeLike | None = None) -> NDArray[Any]:
        """One column of the sentence, newly read: (tokens, width), (spans, width), or (width) for a sentence column.

        Args:
            name: One of `store.columns`.
            dtype: The stored one by default.

        Raises:
            MissingColumnError: The store does not hold it.
            DamageError: The shard is not as it was written.
        """
        column = self._layout.column(name)
        vectors = self._shard.column(name, self._row)
        if column.rows == "sentence":
            vectors = vectors[0]
        return vectors if dtype is None else vectors.astype(dtype, copy=False)

    def layers(self, *, only: Sequence[int] | None = None, dtype: DTypeLike | None = None) -> NDArray[Any]:
        """The layers as published, (layers, tokens, 2 x width): forward beside backward, the token vector twice.

        Args:
            only: Layer numbers; 0 is the token vector. All of the model by default.
            dtype: The stored one by default.

        Raises:
            MissingColumnError: The store does not hold them, such as one of a one-directional model or of some layers.
            DamageError: The shard is not as it was written.
        """
        stacking = self._layout.stacking(only)
        columns = self._shard.columns(stacking.names, self._row)
        if stacking.order is not None and isinstance(columns, np.ndarray):
            # One operation, where a short sentence would spend its time in six.
            side_by_side = columns[stacking.order].transpose(0, 2, 1, 3)
            layers = side_by_side.reshape(stacking.layers, columns.shape[1], stacking.width)
            return layers if dtype is None else layers.astype(dtype, copy=False)
        layers = np.empty(
            (stacking.layers, len(columns[0]), stacking.width), columns[0].dtype if dtype is None else dtype
        )
        for number, place in stacking.parts:
            layers[place] = columns[number]
        return layers
