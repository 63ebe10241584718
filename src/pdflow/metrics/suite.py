"""All metrics by name, each computed for one shape: what `pdflow evaluate` prints.

The short names are those of the paper's tables: `cd`, `hd` and `p2m` use squared distances, `p2s`
and `emd` plain ones. The other forms are `cd_plain`, ..., and `sq_p2s`, ....
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pdflow.errors import PdflowError
from pdflow.mesh import TriangleMesh
from pdflow.metrics.disks import FRACTIONS, uniformity
from pdflow.metrics.matching import earth_movers, sq_earth_movers
from pdflow.metrics.nearest import nearest_distances
from pdflow.metrics.planes import PlaneDistances, plane_distances
from pdflow.metrics.surface import mesh_distances, sq_point_to_mesh_pytorch3d
from pdflow.metrics.two_way import TwoWayDistances


class Shape:
    """A prediction and its ground truth; distances that several metrics share are computed once."""

    def __init__(
        self, pred: Any, clean: Any, mesh: TriangleMesh | None = None, normals: Any = None
    ) -> None:
        self.pred, self.clean, self.normals = pred, clean, normals
        self._mesh = mesh

    @property
    def mesh(self) -> TriangleMesh:
        """The mesh, or an error if there is none."""
        if self._mesh is None:
            raise PdflowError("There is no mesh to measure against: give one.")
        return self._mesh

    @cached_property
    def nearest(self) -> TwoWayDistances:
        """Distances between the two clouds."""
        return nearest_distances(self.pred, self.clean)

    @cached_property
    def planes(self) -> PlaneDistances:
        """Distances from the prediction to the tangent planes of the clean cloud."""
        return plane_distances(self.pred, self.clean, self.normals)

    @cached_property
    def surface(self) -> TwoWayDistances:
        """Distances between the prediction and the mesh."""
        return mesh_distances(self.pred, self.mesh)


@dataclass(frozen=True)
class Metric:
    """A metric: its columns, its function, and the power of ten that tables use for it."""

    columns: tuple[str, ...]
    compute: Callable[[Shape], Iterable[float]]
    exponent: int
    needs_mesh: bool = False


def _single(
    name: str, compute: Callable[[Shape], float], exponent: int, needs_mesh: bool = False
) -> tuple[str, Metric]:
    return name, Metric((name,), lambda shape: [compute(shape)], exponent, needs_mesh)


def _uniformity(name: str, geodesic: bool) -> tuple[str, Metric]:
    def compute(shape: Shape) -> Iterable[float]:
        return uniformity(shape.pred, shape.mesh, geodesic=geodesic).values()

    columns = tuple(f"{name}_{100 * p:.1f}" for p in FRACTIONS)
    return name, Metric(columns, compute, -3, needs_mesh=True)


METRICS: dict[str, Metric] = dict(
    [
        _single("cd", lambda s: s.nearest.sq_mean, -4),
        _single("cd_plain", lambda s: s.nearest.mean, -2),
        _single("hd", lambda s: s.nearest.sq_largest, -3),
        _single("hd_plain", lambda s: s.nearest.largest, -2),
        _single("p2m", lambda s: s.surface.sq_mean, -4, needs_mesh=True),
        _single("p2m_plain", lambda s: s.surface.mean, -2, needs_mesh=True),
        _single(
            "p2m_pytorch3d",
            lambda s: sq_point_to_mesh_pytorch3d(s.pred, s.mesh),
            -4,
            needs_mesh=True,
        ),
        _single("rms", lambda s: s.surface.rms, -2, needs_mesh=True),
        _single("p2s", lambda s: s.planes.point_to_surface, -3),
        _single("sq_p2s", lambda s: s.planes.sq_point_to_surface, -4),
        _single("emd", lambda s: earth_movers(s.pred, s.clean), -2),
        _single("sq_emd", lambda s: sq_earth_movers(s.pred, s.clean), -4),
        _uniformity("uniformity", geodesic=True),
        _uniformity("uniformity_ball", geodesic=False),
    ]
)
"""Metric by name. Uniformity has a column per disk size: `uniformity_0.4` is for 0.4 %."""


def choose_metrics(names: Iterable[str] | None, has_mesh: bool) -> dict[str, Metric]:
    """The named metrics in the given order; None means CD and HD, and P2M if there is a mesh.

    >>> list(choose_metrics(None, has_mesh=True))
    ['cd', 'hd', 'p2m']
    """
    if names is None:
        names = ("cd", "hd", "p2m") if has_mesh else ("cd", "hd")
    chosen = {}
    for name in names:
        if name not in METRICS:
            raise PdflowError(f"Unknown metric {name!r}: choose from {', '.join(METRICS)}.")
        if METRICS[name].needs_mesh and not has_mesh:
            raise PdflowError(f"{name} needs a mesh: give one, or leave {name} out.")
        chosen[name] = METRICS[name]
    if not chosen:
        raise PdflowError(f"No metric was named: choose from {', '.join(METRICS)}.")
    return chosen


def measure(
    pred: Any,
    clean: Any,
    mesh: TriangleMesh | None = None,
    *,
    normals: Any = None,
    metrics: Iterable[str] | None = None,
) -> dict[str, float]:
    """Column name -> value of the chosen metrics for one shape, in plain units.

    pred     (M, 3) array or tensor
    clean    (K, 3) ground truth
    mesh     ground-truth surface, for the metrics that need it
    normals  (K, 3) of the clean points, for P2S; by default fitted
    metrics  names from METRICS; by default cd and hd, and p2m if there is a mesh

    >>> square = [[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0]]
    >>> measure(square, square)
    {'cd': 0.0, 'hd': 0.0}
    """
    shape = Shape(pred, clean, mesh, normals)
    values: dict[str, float] = {}
    for metric in choose_metrics(metrics, mesh is not None).values():
        values.update(zip(metric.columns, metric.compute(shape), strict=True))
    return values
