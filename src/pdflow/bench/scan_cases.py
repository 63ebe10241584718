"""Scans with a known truth as input of a method, and what the table of scans measures on them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdflow.bench.cases import Case, Points, Scale
from pdflow.bench.methods import Method, Output
from pdflow.cloud import PointCloud
from pdflow.errors import PdflowError
from pdflow.geometry.frame import unit_sphere
from pdflow.geometry.neighbors import NeighborSearch, knn
from pdflow.geometry.triangles import closest_on_mesh
from pdflow.metrics.inputs import as_points
from pdflow.metrics.nearest import sq_chamfer
from pdflow.scenes.cases import Case as Truth
from pdflow.scenes.surface import BUILDING, GROUND, TREE, WIRE

FAR = 4.0
"""Sigmas off the surface from which an outlier cannot be noise."""
FILTER = "statistical"
"""Name of the statistical filter."""
FILTER_NEIGHBOURS, FILTER_RATIO = 20, 1.0
"""Of the statistical filter: the values in Open3D's tutorial."""
MILLIMETRES = 1000.0
"""Places are in metres."""

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class ScanCase(Case):
    """A scan with its truth.

    truth      the scene that it comes from; methods must not use it
    to_remove  whether outliers are to be removed: peers get the cloud from the statistical filter
    """

    truth: Truth = field(kw_only=True)
    to_remove: bool = False

    @staticmethod
    def of(truth: Truth, to_remove: bool) -> ScanCase:
        """The case of a scene."""
        return ScanCase(truth.noisy, truth.clean, truth.mesh, truth=truth, to_remove=to_remove)

    @cached_property
    def kept(self) -> Mask:
        """(M,): what the statistical filter keeps; all points if nothing is to be removed."""
        if not self.to_remove:
            return np.ones(len(self.noisy), bool)
        return statistical_filter(self.noisy)

    @cached_property
    def filtered(self) -> Case:
        """The case that peers get."""
        return Case(self.noisy[self.kept], self.clean, self.mesh)

    @property
    def scale(self) -> Scale:
        """Noise and spacing of what peers get."""
        return self.filtered.scale

    @cached_property
    def sigma(self) -> float:
        """Root mean square of the true sigma, outliers left out; 0 for clean scans."""
        return float(np.sqrt(np.nanmean(self.truth.sigma**2)))

    @cached_property
    def estimate(self) -> float:
        """Estimated noise over the true one; without the outliers that we find, if any are to be
        removed: the estimate of a run comes after that, too."""
        from pdflow.noise.estimate import estimate_noise
        from pdflow.pipeline.outliers import find_outliers

        points = self.noisy
        if self.to_remove:
            points = points[~find_outliers(NeighborSearch(points))[0]]
        return estimate_noise(points).sigma / self.sigma

    @cached_property
    def sq_before(self) -> Points:
        """(M,): squared distances of the input to the surface."""
        return closest_on_mesh(self.noisy, self.truth.mesh)[0]


Extra = Callable[[ScanCase, "Result"], dict[str, float]]


@dataclass(frozen=True)
class Result:
    """The output on a scan, compared with the surface.

    points   (m, 3)
    rows     (m,) of the input that they were
    sq       (m,) squared distances to the surface
    nearest  (m, 3) on the surface
    kept     (M,) rows of the input that the method kept
    """

    points: Points
    rows: NDArray[np.int64]
    sq: Points
    nearest: Points
    kept: Mask


def measure_scan(extras: tuple[Extra, ...], correlated: bool) -> Callable[[Any, Output], Any]:
    """What a cell measures: CD, P2M one-way, and moves, the noise estimate and further columns.

    Mixed pixels are part of the input but not of the measured points, unless outliers are to be
    removed: no smoothing filter can bring them back, and they are most of any error.
    """

    def measured(case: ScanCase, output: Output) -> dict[str, float]:
        result = _result(case, output)
        truth = case.truth
        clean = case.clean if case.to_remove else case.clean[~truth.outliers[: len(case.clean)]]
        values = {
            "cd": sq_chamfer(result.points, clean),
            "p2m_one_way": float(result.sq.mean()) / unit_sphere(clean).scale ** 2,
        }
        for extra in extras:
            values.update(extra(case, result))
        if case.sigma > 0:
            values["largest_move"] = float(_moves(case, result).max()) / case.sigma
            values["estimate_correlated" if correlated else "estimate"] = case.estimate
        return values

    return measured


def _result(case: ScanCase, output: Output) -> Result:
    kept = np.ones(len(case.noisy), bool) if output.kept is None else output.kept
    points, rows = as_points(output.points, "The result"), np.flatnonzero(kept)
    if len(points) != len(rows):
        raise PdflowError(
            f"{len(points)} points came back for {len(rows)}: scans are measured row by row."
        )
    if not case.to_remove:
        on_surface = ~case.truth.outliers[rows]
        points, rows = points[on_surface], rows[on_surface]
    sq, _, nearest = closest_on_mesh(points, case.truth.mesh)
    return Result(points, rows, sq, nearest, kept)


def outlier_shares(case: ScanCase, result: Result) -> dict[str, float]:
    """Shares of outliers found and of surface points taken with them."""
    outliers = case.truth.outliers
    far = outliers & (case.sq_before > (FAR * case.sigma) ** 2)
    masks = {"recall_far": far, "recall": outliers, "taken": ~outliers}
    return {name: float((~result.kept[m]).mean()) for name, m in masks.items() if m.any()}


def surface_rms(case: ScanCase, result: Result) -> dict[str, float]:
    """Root mean square of the distance to the surface, over that of the input."""
    return {"rms_ratio": _ratio(case, result, np.ones(len(result.rows), bool))}


def mean_move(case: ScanCase, result: Result) -> dict[str, float]:
    """How far points of a clean scan move, in spacings."""
    return {"mean_move": float(_moves(case, result).mean()) / case.truth.scan.spacing}


def tile_errors(case: ScanCase, result: Result) -> dict[str, float]:
    """Errors of ground and buildings, and moves of what has no surface, on a tile of terrain."""
    truth = case.truth
    classes = truth.classes[result.rows]
    # Towards the scanner is up, on either side of a face.
    up = -np.sign((truth.scan.rays * truth.scan.normals).sum(1))[:, None] * truth.scan.normals
    heights = ((result.points - result.nearest) * up[result.rows]).sum(1)
    moves = _moves(case, result) / case.sigma
    values, biases = {}, []
    for name, code in (("ground", GROUND), ("building", BUILDING)):
        if (classes == code).any():
            values[f"{name}_ratio"] = _ratio(case, result, classes == code)
            biases.append(abs(float(heights[classes == code].mean())))
    values["bias"] = MILLIMETRES * max(biases)
    for name, code in (("tree", TREE), ("wire", WIRE)):
        if (classes == code).any():
            values[f"{name}_move"] = float(np.median(moves[classes == code]))
    return values


def _ratio(case: ScanCase, result: Result, mask: Mask) -> float:
    return float(np.sqrt(result.sq[mask].mean() / case.sq_before[result.rows[mask]].mean()))


def _moves(case: ScanCase, result: Result) -> Points:
    """(m,): how far each point went."""
    return np.asarray(np.linalg.norm(result.points - case.noisy[result.rows], axis=1))


def statistical_filter(points: Points) -> Mask:
    """(M,): points whose mean distance to their neighbours is near that of all points.

    The usual filter of PCL and Open3D: at most one standard deviation above the mean.
    """
    count = min(FILTER_NEIGHBOURS + 1, len(points))
    means = np.sqrt(knn(points, points, count)[0][:, 1:]).mean(axis=1)
    return np.asarray(means <= means.mean() + FILTER_RATIO * means.std())


def filter_method() -> Method:
    """The statistical filter alone, for cases with outliers."""

    def remove(_: None, case: Case) -> Output:
        assert isinstance(case, ScanCase)
        return Output(case.filtered.noisy, kept=case.kept)

    settings = {"neighbours": FILTER_NEIGHBOURS, "ratio": FILTER_RATIO}
    return Method(FILTER, "peer", lambda: None, remove, settings)


def on_scans(method: Method) -> Method:
    """The method as this table runs it: our networks remove outliers where there are any."""

    def denoise(state: Any, case: Case) -> Output:
        assert isinstance(case, ScanCase)
        if not case.to_remove or method.group == "reference":
            return replace(method.denoise(state, case), remark="")
        if method.group == "ours":
            marked = replace(state, outliers="mark")(PointCloud(case.noisy)).cloud
            kept = marked.attributes["outlier"] == 0
            return Output(marked.points[kept], kept=kept)
        return Output(method.denoise(state, case.filtered).points, kept=case.kept)

    return replace(method, denoise=denoise)
