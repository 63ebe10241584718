"""Split a dense cloud into sparser ones of the same shape (supplement C.3)."""

from __future__ import annotations

import numpy as np

from pdflow.geometry.arrays import FloatArray, IntArray
from pdflow.geometry.morton import morton_keys


def interleave(points: FloatArray, parts: int) -> list[IntArray]:
    """Rows of `parts` clouds that each cover the whole of `points` (M, 3) evenly.

    Points are put in the order of a space-filling (Morton) curve, and every `parts`-th of them
    goes to the same part: neighbours on the curve are neighbours in space, so each part takes
    its share of every place.

    Paper: the parts are strides of the farthest-point order; the curve needs a sort only, where
    that order costs seconds for a million points.

    >>> [len(rows) for rows in interleave(np.random.default_rng(0).normal(size=(11, 3)), 3)]
    [4, 4, 3]
    """
    order = np.argsort(morton_keys(points), kind="stable")
    return [order[start::parts] for start in range(parts)]
