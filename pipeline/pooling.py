"""One vector for a sentence, from those of its tokens."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import ConfigError

POOLS = ("mean", "max", "first", "last")


def pool_names(pool: str) -> tuple[str, ...]:
    """The ways of pooling in a setting such as `mean,max`; none in an empty one.

    Raises:
        ConfigError: A way is unknown or stands twice.
    """
    names = tuple(pool.split(",")) if pool else ()
    if not set(names) <= set(POOLS) or len(set(names)) != len(names):
        raise ConfigError(f"pool {pool!r}: give one or several of {', '.join(POOLS)}, each once, separated by commas")
    return names


def pooled(rows: NDArray[np.float32], lengths: Sequence[int], *, how: str) -> NDArray[np.float32]:
    """One row a sentence, float32 (sentences, width); zero for a sentence of no tokens.

    Args:
        rows: The tokens of all sentences, one after the other (tokens, width).
        lengths: Tokens of each sentence.
        how: One of POOLS. The mean is summed in float64, so that it is exact for proteins of many thousand tokens too.
    """
    result = np.zeros((len(lengths), rows.shape[1]), dtype=np.float32)
    start = 0
    for sentence, length in enumerate(lengths):
        tokens = rows[start : start + length]
        start += length
        if not length:
            continue
        if how == "mean":
            result[sentence] = tokens.mean(axis=0, dtype=np.float64)
        elif how == "max":
            result[sentence] = tokens.max(axis=0)
        else:
            result[sentence] = tokens[0] if how == "first" else tokens[-1]
    return result
