"""The input of a method, and its place in a table."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pdflow.errors import PdflowError
from pdflow.mesh import TriangleMesh

if TYPE_CHECKING:
    from pdflow.bench.methods import Output

Points = NDArray[np.float64]
SPACING_NEIGHBOURS = 64
"""Points of the disc that gives the spacing: it is wider than the noise of any table."""


@dataclass(frozen=True)
class Scale:
    """Lengths estimated from a cloud, in its own unit.

    noise    standard deviation
    spacing  side of the square of surface per point
    """

    noise: float
    spacing: float

    @staticmethod
    def of(points: Points) -> Scale:
        """The lengths of points (M, 3)."""
        from pdflow.geometry.neighbors import knn
        from pdflow.noise.estimate import estimate_noise

        count = min(SPACING_NEIGHBOURS, len(points))
        probes = points[:: max(1, len(points) // 1000)]
        disc = math.sqrt(float(np.median(knn(points, probes, count)[0][:, -1])))
        return Scale(estimate_noise(points).sigma, disc * math.sqrt(math.pi / count))


@dataclass(frozen=True)
class Case:
    """One noisy cloud with its ground truth.

    noisy    (M, 3), the only thing that a method may use
    clean    (K, 3)
    mesh     ground-truth surface, if there is one
    normals  (K, 3) of the clean points, if they are known
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

    block    cells of a block are shown side by side; such as 10K
    name     of the cell within its block, such as 1 %
    metrics  names of `pdflow.metrics.METRICS`
    load     shape name -> case
    weight   cost of a shape relative to other cells; only for the progress bar
    measure  (case, output) -> column -> value, instead of `metrics`
    skips    names of methods that are not run here
    """

    block: str
    name: str
    metrics: tuple[str, ...]
    shapes: tuple[str, ...]
    load: Callable[[str], Case] = field(repr=False)
    weight: float = 1.0
    measure: Callable[[Any, Output], dict[str, float]] | None = field(default=None, repr=False)
    skips: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """Name of the cell in files and published numbers.

        >>> Cell("10K", "1 %", ("cd",), (), Case).label
        '10K 1 %'
        """
        return f"{self.block} {self.name}".strip()


@dataclass(frozen=True)
class Options:
    """The options of a run.

    data     folder with the data of the table
    folder   of the results
    methods  names, or None: all that are installed
    points   resolutions, or None: all of the table
    levels   noise levels, or None: all of the table
    shapes   names of shapes, or how many of them, or None: all
    heldout  measure held-out training shapes instead of the test shapes
    steps    training steps of ablations, or None: as many as their size has
    size     of their networks: "small" or "paper"
    train_seeds  seeds that each of them is trained with
    device   cpu or cuda, or None: cuda if available
    seed     of all added noise
    """

    data: Path
    folder: Path
    methods: tuple[str, ...] | None = None
    points: tuple[int, ...] | None = None
    levels: tuple[float, ...] | None = None
    shapes: int | tuple[str, ...] | None = None
    heldout: bool = False
    steps: int | None = None
    size: str = "small"
    train_seeds: int = 1
    device: str | None = None
    seed: int = 0


def some_shapes(known: Sequence[str], wanted: int | tuple[str, ...] | None) -> tuple[str, ...]:
    """Those of the known shapes that are wanted: by name, the first ones, or all.

    >>> some_shapes(["cow", "elk", "pig"], 2), some_shapes(["cow", "elk", "pig"], ("pig",))
    (('cow', 'elk'), ('pig',))
    """
    if not isinstance(wanted, tuple):
        return tuple(known[:wanted])
    unknown = [name for name in wanted if name not in known]
    if unknown:
        raise PdflowError(f"There is no shape {unknown[0]!r}: choose from {', '.join(known)}.")
    return wanted


def thousands(points: int) -> str:
    """A number of points as written in tables.

    >>> thousands(50000), thousands(500)
    ('50K', '500')
    """
    return f"{points // 1000}K" if points % 1000 == 0 else str(points)


def percent(level: float) -> str:
    """A noise level as written in tables.

    >>> percent(0.025)
    '2.5 %'
    """
    return f"{100 * level:g} %"
