"""Vectors in two dimensions."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True)
class Projection:
    """Points in the plane.

    Attributes:
        points: float64 (vectors, 2).
        explained: The share of the variance along each of the two axes.
    """

    points: NDArray[np.float64]
    explained: tuple[float, float]


def principal_components(vectors: Sequence[NDArray[np.float32]]) -> Projection:
    """The projection onto the two directions of largest variance (Pearson 1901), the same whenever it is computed.

    The sign of an axis is free; here the largest loading is positive. A single vector, or equal ones, lie at 0.
    """
    stacked = np.asarray(vectors, dtype=np.float64)
    centred = stacked - stacked.mean(axis=0)
    _, deviations, axes = np.linalg.svd(centred, full_matrices=False)
    points = np.zeros((len(stacked), 2))
    explained = [0.0, 0.0]
    total = float(np.square(deviations).sum())
    for number in range(min(2, len(deviations))):
        axis = axes[number] * np.sign(axes[number][np.argmax(np.abs(axes[number]))])
        points[:, number] = centred @ axis
        explained[number] = float(deviations[number] ** 2) / total if total else 0.0
    return Projection(points=points, explained=(explained[0], explained[1]))
