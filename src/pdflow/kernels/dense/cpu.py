"""Stacks of dense layers on the rows of a matrix, in one compiled pass on one core."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pdflow.compiled import compiled
from pdflow.kernels.dense.llvm import MARKS
from pdflow.kernels.dense.tile import COLUMNS, ROWS, Array, pack, tile_affine, tile_marks

_BLOCK = 32
"""Rows that go through all layers at a time."""


class Dense:
    """Affine maps with relu between them: x W1 + b1, relu, ..., x WL + bL.

    A few rows at a time go through all layers, so that activations never leave the cache.
    """

    def __init__(self, layers: Sequence[tuple[NDArray[np.floating], NDArray[np.floating]]]) -> None:
        """Layers as pairs of weight (in, out) and bias (out,)."""
        widths, parts = [len(layers[0][0])], []
        for weight, bias in layers:
            widths.append(len(bias))
            parts += [pack(np.asarray(bias)[None], COLUMNS), pack(np.asarray(weight), COLUMNS)]
        self._widths = np.array(widths, np.int64)
        self._packed = np.concatenate(parts)

    def __call__(self, x: Array, first: int = 0) -> Array:
        """(N, out) from the columns of x (N, C) from `first` on."""
        out = np.empty((len(x), self._widths[-1]), np.float32)
        _run_layers(x, first, self._widths, self._packed, out)
        return out


@compiled
def _run_layers(x: Array, first: int, widths: NDArray[np.int64], packed: Array, out: Array) -> None:
    """A block of rows goes through a layer panel by panel, so that panels come from the nearest
    cache. Tiles also cover rows beyond the last, which are not copied to `out`."""
    words = (widths.max() + MARKS - 1) // MARKS
    widest = words * MARKS
    here, there = np.zeros(_BLOCK * widest, np.float32), np.zeros(_BLOCK * widest, np.float32)
    marks = np.zeros(_BLOCK // ROWS * words, np.int64)
    last = len(widths) - 1
    inputs, outputs = widths[0], widths[last]
    for start in range(0, len(x), _BLOCK):
        rows = min(_BLOCK, len(x) - start)
        for r in range(rows):
            line, given = here[r * widest :], x[start + r, first:]
            for c in range(inputs):
                line[c] = given[c]
        place = 0
        for layer in range(1, last + 1):
            depth = widths[layer - 1]
            wide = (widths[layer] + COLUMNS - 1) // COLUMNS * COLUMNS
            floor = np.float32(-np.inf) if layer == last else np.float32(0)
            for r in range(0, rows, ROWS):
                tile_marks(here, r * widest, widest, depth, marks, r // ROWS * words)
            for c in range(0, wide, COLUMNS):
                panel = place + wide + c * depth
                for r in range(0, rows, ROWS):
                    tile_affine(
                        here, r * widest, widest, depth, marks, r // ROWS * words,
                        packed, panel, place + c, floor,
                        there, r * widest + c,
                    )  # fmt: skip
            place += wide * (depth + 1)
            here, there = there, here
        for r in range(rows):
            line, wanted = here[r * widest :], out[start + r]
            for c in range(outputs):
                wanted[c] = line[c]
