"""What a method is given, and where it stands in a table."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pdflow.mesh import TriangleMesh

Points = NDArray[np.float64]
SPACING_NEIGHBOURS = 64
"""Points of the disc from which the spacing is taken: wider than the noise of any table."""


@dataclass(frozen=True)
class Scale:
    """Lengths that a cloud shows of itself, in its own unit.

    noise    estimated standard deviation
    spacing  side of the square that each point has to itself on the surface
    """

    noise: float
    spacing: float

    @staticmethod
    def of(points: Points) -> Scale:
        """The lengths of points (M, 3)."""
        from pdflow.geometry.neighbors import knn
        from pdflow.noise.estimate import estimate_noise

        count = min(SPACING_NEIGHBOURS, len(points))
        some = points[:: max(1, len(points) // 1000)]
        disc = math.sqrt(float(np.median(knn(points, some, count)[0][:, -1])))
        return Scale(estimate_noise(points).sigma, disc * math.sqrt(math.pi / count))


@dataclass(frozen=True)
class Case:
    """One noisy cloud with its ground truth.

    noisy    (M, 3), all that a method may look at
    clean    (K, 3)
    mesh     ground-truth surface, where there is one
    normals  (K, 3) of the clean points, where they are known
    """

    noisy: Points
    clean: Points
    mesh: TriangleMesh | None = None
    normals: Points | None = None

    @cached_property
    def scale(self) -> Scale:
        """Noise and spacing, estimated from the noisy cloud alone."""
        return Scale.of(self.noisy)


@dataclass(frozen=True)
class Cell:
    """A cell of a table: a setting, and the shapes it is measured on.

    block    cells of one block are shown side by side, such as 10K
    name     what differs within a block, such as 1 %
    metrics  names of `pdflow.metrics.METRICS`
    load     shape name -> case
    weight   cost of a shape, relative to other cells; for the remaining time only
    """

    block: str
    name: str
    metrics: tuple[str, ...]
    shapes: tuple[str, ...]
    load: Callable[[str], Case] = field(repr=False)
    weight: float = 1.0

    @property
    def label(self) -> str:
        """What the cell is called in files and published numbers.

        >>> Cell("10K", "1 %", ("cd",), (), Case).label
        '10K 1 %'
        """
        return f"{self.block} {self.name}".strip()


@dataclass(frozen=True)
class Options:
    """What a run of a table may be asked for.

    data     folder with the data of the table
    folder   where results are kept
    methods  names, or None: all that are installed
    points   resolutions, or None: all of the table
    levels   noise levels, or None: all of the table
    shapes   how many shapes at most, or None: all
    heldout  measure held-out training shapes instead of the test shapes
    steps    training steps of ablations
    size     of their networks: "small" or "paper"
    device   cpu or cuda, or None: the best there is
    seed     of all noise that is drawn
    """

    data: Path
    folder: Path
    methods: tuple[str, ...] | None = None
    points: tuple[int, ...] | None = None
    levels: tuple[float, ...] | None = None
    shapes: int | None = None
    heldout: bool = False
    steps: int = 500
    size: str = "small"
    device: str | None = None
    seed: int = 0


def thousands(points: int) -> str:
    """A number of points as tables name it.

    >>> thousands(50000), thousands(500)
    ('50K', '500')
    """
    return f"{points // 1000}K" if points % 1000 == 0 else str(points)


def percent(level: float) -> str:
    """A noise level as tables name it.

    >>> percent(0.025)
    '2.5 %'
    """
    return f"{100 * level:g} %"
