"""One vector for a sentence or a span, from those of its tokens."""

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


def pooled(rows: NDArray[np.float32], bounds: Sequence[tuple[int, int]], *, how: str) -> NDArray[np.float32]:
    """One row for each run of tokens, float32 (runs, width); zero for a run of no tokens.

    Args:
        rows: The vectors of tokens (tokens, width).
        bounds: Where each run starts, and where it has ended.
        how: One of POOLS. The mean is summed in float64, so that it is exact for proteins of many thousand tokens too.
    """
    result = np.zeros((len(bounds), rows.shape[1]), dtype=np.float32)
    for run, (start, end) in enumerate(bounds):
        tokens = rows[start:end]
        if start == end:
            continue
        if how == "mean":
            result[run] = tokens.mean(axis=0, dtype=np.float64)
        elif how == "max":
            result[run] = tokens.max(axis=0)
        else:
            result[run] = tokens[0] if how == "first" else tokens[-1]
    return result
