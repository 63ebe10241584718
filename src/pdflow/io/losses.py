"""What a format cannot hold, collected as phrases and named in one warning."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pdflow.errors import LossWarning


def warn_of_losses(format: str, losses: Sequence[str]) -> None:
    """Name everything left out in one LossWarning; do nothing if nothing is."""
    if losses:
        warnings.warn(
            f"{format} cannot hold {', '.join(losses)}: left out.", LossWarning, stacklevel=2
        )


class SingleRounding:
    """How far float32 moves coordinates, over all chunks of a file.

    >>> rounding = SingleRounding()
    >>> rounding.add(np.array([[5e6 + 0.1, 0, 0], [5e6 + 9, 0, 0]]))
    >>> rounding.losses
    ['coordinates beyond single precision (it moves them by up to 0.1)']
    """

    def __init__(self) -> None:
        self._largest = 0.0
        self._low, self._high = np.full(3, np.inf), np.full(3, -np.inf)

    def add(self, points: NDArray[np.float64]) -> None:
        """Add the next points (M, 3)."""
        finite = points[np.isfinite(points).all(1)]
        with np.errstate(over="ignore"):
            moves = np.abs(finite.astype(np.float32) - finite)
        if moves.any():
            self._largest = max(self._largest, float(moves.max()))
            self._low = np.minimum(self._low, finite.min(0))
            self._high = np.maximum(self._high, finite.max(0))

    @property
    def losses(self) -> list[str]:
        """Moves beyond a millionth of the extent, as a phrase; data near 0 never has them."""
        if self._largest == 0 or self._largest <= 1e-6 * float((self._high - self._low).max()):
            return []
        return [f"coordinates beyond single precision (it moves them by up to {self._largest:.2g})"]


def single_precision_losses(points: NDArray[np.float64]) -> list[str]:
    """What float32 loses of coordinates (M, 3), as phrases for `warn_of_losses`."""
    rounding = SingleRounding()
    rounding.add(points)
    return rounding.losses
