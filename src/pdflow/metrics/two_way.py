"""Distances from a prediction to its ground truth and back, and what metrics take from them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class TwoWayDistances:
    """Squared distances in the ground truth's unit sphere.

    sq_to_truth  (M,) from every predicted point to the nearest clean point, or face of the mesh
    sq_to_pred   (K,) or (F,) from every clean point, or face, to the nearest predicted point
    """

    sq_to_truth: NDArray[np.float64]
    sq_to_pred: NDArray[np.float64]

    @property
    def sq_mean(self) -> float:
        """Mean plus mean of the squared distances."""
        return float(self.sq_to_truth.mean() + self.sq_to_pred.mean())

    @property
    def mean(self) -> float:
        """Mean plus mean of the plain distances."""
        return float(np.sqrt(self.sq_to_truth).mean() + np.sqrt(self.sq_to_pred).mean())

    @property
    def sq_largest(self) -> float:
        """The largest squared distance of both ways."""
        return float(max(self.sq_to_truth.max(), self.sq_to_pred.max()))

    @property
    def largest(self) -> float:
        """The largest plain distance of both ways."""
        return float(np.sqrt(self.sq_largest))

    @property
    def rms(self) -> float:
        """Root mean square of the distances to the ground truth, without the way back."""
        return float(np.sqrt(self.sq_to_truth.mean()))
