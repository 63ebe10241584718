"""The surface of a cloud, told apart from its outliers: what passes and later stages work on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pdflow.geometry.neighbors import NeighborSearch
from pdflow.noise.estimate import NoiseEstimate
from pdflow.pipeline.large import Layout
from pdflow.pipeline.normalise import Normalised


@dataclass(frozen=True)
class Surface:
    """The points of a cloud that have a surface near them.

    given    the cloud
    outlier  (U,) which of its different points have no surface near them
    search   of the others (m, 3)
    noise    theirs
    layout   theirs, if the cloud is large
    """

    given: Normalised
    outlier: NDArray[np.bool_]
    search: NeighborSearch
    noise: NoiseEstimate
    layout: Layout | None = None

    @property
    def outlier_rows(self) -> NDArray[np.int64]:
        """Rows of the cloud that hold an outlier."""
        return np.flatnonzero(self.outlier[self.given.place])

    @property
    def first_rows(self) -> NDArray[np.int64]:
        """(m,): the first row of the cloud at each point of the surface."""
        return self.given.first_rows[~self.outlier]
