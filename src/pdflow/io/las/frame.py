"""Scale and offset: how float64 coordinates become the 32-bit integers of LAS."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

_LARGEST = 2**31 - 2
_FINEST_NEEDED = 1e-4
_RELATIVE = 1e-9
_HEADROOM = 10.0
_MOST_DECIMALS = 9
_PROBED = 1000
_ROUNDING = 4.5e-16
"""Relative error of a decimal number as a double, times a power of ten; both are rounded."""
_UNCLEAR = 0.01
LARGEST_COORDINATE = 1e300
"""Beyond this, sums of coordinates overflow."""
FEWEST_DECIMALS = 3
"""Decimals of a scale that follows the digits of the coordinates: 0.001, or finer."""


@dataclass(frozen=True)
class Frame:
    """points = integers * scales + offsets; both (3,)."""

    scales: NDArray[np.float64]
    offsets: NDArray[np.float64]

    def to_integers(self, values: NDArray[np.float64], axis: int) -> NDArray[np.int32]:
        """(M,) integers of coordinates (M,) along one axis; all must fit."""
        scaled = (values - self.offsets[axis]) / self.scales[axis]
        return np.asarray(np.rint(scaled, out=scaled), np.int32)

    def to_coordinates(self, integers: NDArray[Any], axis: int) -> NDArray[np.float64]:
        """(M,) coordinates of integers (M,) along one axis."""
        return np.asarray(integers * self.scales[axis] + self.offsets[axis])

    def fits(self, box: NDArray[np.float64]) -> bool:
        """Whether every coordinate in a box (2, 3) has an integer."""
        return bool((np.abs((box - self.offsets) / self.scales) <= _LARGEST).all())

    def fitted(self, box: NDArray[np.float64]) -> Frame:
        """The frame itself if a box (2, 3) fits, or else new offsets and, if needed, new scales.

        Offsets change first, because coordinates far from them would need coarse scales.

        >>> frame = Frame(np.full(3, 1e-3), np.zeros(3)).fitted(np.array([[5e6] * 3, [5.1e6] * 3]))
        >>> frame.scales.tolist(), frame.offsets.tolist()
        ([0.001, 0.001, 0.001], [5000000.0, 5000000.0, 5000000.0])
        """
        outside = np.abs(box - self.offsets).max(0) / _LARGEST > np.abs(self.scales)
        extent = np.maximum(box[1] - box[0], np.abs(self.scales))
        unit = 10.0 ** np.ceil(np.log10(extent))
        middle = np.rint((box[0] / 2 + box[1] / 2) / unit) * unit
        return Frame(self.scales, np.where(outside, middle, self.offsets)).widened(box)

    def widened(self, box: NDArray[np.float64]) -> Frame:
        """The frame with each scale multiplied by powers of ten until the box fits."""
        reach = np.abs(box - self.offsets).max(0) / _LARGEST / np.abs(self.scales)
        steps = np.ceil(np.log10(np.maximum(reach, 1.0)))
        return Frame(self.scales * 10.0**steps, self.offsets)


def choose_frame(box: NDArray[np.float64], growing: bool) -> Frame:
    """A frame for points in a box (2, 3) that keeps 0.1 mm or 1e-9 of the box, whichever is finer.

    growing  whether more points will follow, which may enlarge the box

    >>> frame = choose_frame(np.array([[5e6, 0, 0], [5e6 + 100, 50, 10]]), growing=False)
    >>> frame.scales.tolist(), frame.offsets.tolist()
    ([1e-07, 1e-07, 1e-07], [5000000.0, 0.0, 0.0])
    """
    extent = float((box[1] - box[0]).max()) or 1.0
    if growing:
        margin = extent * _HEADROOM / 2
        box = np.stack([box[0] - margin, box[1] + margin])
        extent += 2 * margin
    unit = 10.0 ** np.floor(np.log10(extent))
    offsets = np.floor(box[0] / unit) * unit
    decade = np.floor(np.log10(min(_FINEST_NEEDED, _RELATIVE * extent)) + 1e-6)
    for factor in (1, 2, 5, 10, 20, 50, 100):
        frame = Frame(np.full(3, float(f"{factor}e{decade:.0f}")), offsets)
        if frame.fits(box):
            return frame
    return frame.widened(box)


def decimals_of(points: NDArray[np.float64]) -> int | None:
    """Decimals, from FEWEST_DECIMALS on, that coordinates (M, 3) have; None if they have no end.

    >>> decimals_of(np.array([[431234.5678, 1.0, 0.25]])), decimals_of(np.array([[1 / 3, 0, 0]]))
    (4, None)
    """
    for decimals in range(FEWEST_DECIMALS, _MOST_DECIMALS + 1):
        if have_decimals(points[:_PROBED], decimals) and have_decimals(points, decimals):
            return decimals
    return None


def have_decimals(points: NDArray[np.float64], decimals: int) -> bool:
    """Whether coordinates (M, 3) are decimal numbers with so many decimals."""
    scaled = points * 10.0**decimals
    error = _ROUNDING * np.abs(scaled)
    return bool((error < _UNCLEAR).all() and (np.abs(scaled - np.rint(scaled)) <= error).all())


def bounding_box(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """(2, 3): smallest and largest coordinates, column by column because numpy is faster so."""
    return np.array([[c.min() for c in points.T], [c.max() for c in points.T]])
