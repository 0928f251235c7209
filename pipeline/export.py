"""A store in the HDF5 layouts that `allennlp elmo` and bilm-tf wrote, for code that reads those.

Both have one dataset a sentence, named by its position from "0", so they are slow at millions. `allennlp` adds the
dataset `sentence_to_index`, JSON from each sentence's text to its name; of equal sentences the last one is named.
"""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import h5py
import numpy as np
from numpy.typing import NDArray

from pipeline.config import check_choice
from pipeline.errors import ConfigError, FailedSentenceError, StorageError
from pipeline.features import Features
from pipeline.reader import FeatureStore
from pipeline.storage import Folder, explain

Layout = Literal["allennlp", "bilm-tf"]
Layers = Literal["all", "top", "average"]


def convert(
    url: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    layout: Layout = "allennlp",
    layers: Layers = "all",
    skip_failed: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> int:
    """Writes a store as one file in a published layout, which appears under its name when it is whole.

    Args:
        url: The store.
        output: The new file.
        layout: Whose.
        layers: `all` gives float32 (layers, tokens, 2 x width) a sentence, `top` and `average` (tokens, 2 x width).
        skip_failed: Leaves the names of failed sentences out, in place of refusing a store that has some.
        progress: Called with the number of sentences done and of all sentences after each.

    Returns:
        The number of sentences written.

    Raises:
        ConfigError: `output` exists, or the layout has not these layers.
        FailedSentenceError: The store has failed sentences; names the first.
        MissingColumnError: The store does not hold all that the layout needs.
        StoreError: The store cannot be read.
        StorageError: The file cannot be written.
    """
    check_choice("layout", layout, Layout)
    check_choice("layers", layers, Layers)
    if layout == "bilm-tf" and layers != "all":
        raise ConfigError(f"the layout bilm-tf has all layers, not {layers!r}; use the layout allennlp")
    out = Path(output)
    if out.exists():
        raise ConfigError(f"{out} exists already; remove it, or choose another name")
    store = FeatureStore.open(url)
    vectors = _vectors(store, layers)
    good = store.positions().tolist()
    if store.failed and not skip_failed:
        first = next(position for position in range(len(store)) if position >= len(good) or good[position] != position)
        raise FailedSentenceError(
            f"{url} has {store.failed} failed sentences, the first at position {first}, and {layout} files have no "
            "place for them; allow for leaving them out, or dump the corpus anew"
        )
    target = Folder(out.absolute().parent)
    with target.staged(out.name) as path:
        try:
            with h5py.File(path, "w", track_order=False) as file:
                names = {}
                for count, position in enumerate(good, 1):
                    features = store.at(position)
                    file.create_dataset(str(position), data=vectors(features), dtype=np.float32, track_times=False)
                    text = features.text
                    names[" ".join(features.tokens) if text is None else text.strip()] = str(position)
                    if progress is not None:
                        progress(count, len(good))
                if layout == "allennlp":
                    index = file.create_dataset("sentence_to_index", (1,), dtype=h5py.string_dtype(), track_times=False)
                    index[0] = json.dumps(names)
        except (OSError, RuntimeError) as error:
            if isinstance(error, StorageError):
                raise
            raise StorageError(f"cannot write {out}: {explain(error)}") from error
        target.publish(path, out.name)
    return len(good)


def _vectors(store: FeatureStore, layers: Layers) -> Callable[[Features], NDArray[Any]]:
    """How the vectors of a sentence are made from what the store holds."""
    if layers == "average" and "average" in store.columns:
        return lambda features: features.column("average", dtype=np.float32)
    if layers == "top" and store.layout.chosen == "top":
        top = max(column.layer for column in store.manifest.columns if column.layer is not None)
        return lambda features: features.layers(only=(top,), dtype=np.float32)[0]
    store.layout.stacking(None)
    if layers == "all":
        return lambda features: features.layers(dtype=np.float32)
    if layers == "top":
        return lambda features: features.layers(dtype=np.float32)[-1]
    return lambda features: features.layers(dtype=np.float32).mean(axis=0, dtype=np.float32)
