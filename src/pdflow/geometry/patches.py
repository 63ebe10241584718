"""Cover a cloud with patches, and scale each to the size and density a network was trained on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdflow.compiled import compiled
from pdflow.errors import PdflowError
from pdflow.geometry.arrays import FloatArray, IntArray
from pdflow.geometry.axes import axes_of_patches
from pdflow.geometry.farthest import farthest_point_sampling, farthest_points_of_groups
from pdflow.geometry.frame import Frame
from pdflow.geometry.neighbors import NeighborSearch
from pdflow.parallel import fill_rows, run_in_threads

_PATCHES_IN_CACHE = 16
_FEW_PATCHES = 8
"""Patches that a second thread is not worth."""

_PROBED_PLACES = 256

FEW_PATCHES = 2000
"""So many patches are always allowed."""

MOST_PATCHES = 32
"""Patches that a radius may ask for, as a multiple of those of full size."""


@dataclass(frozen=True)
class Patches:
    """Overlapping pieces of a cloud; every point is in at least one.

    seeds         (P,) rows of the cloud that the patches are centred on
    rows          (P, N) rows of the cloud, nearest to the seed first
    sq_distances  (P, N) from the seed
    """

    seeds: IntArray
    rows: IntArray
    sq_distances: FloatArray

    def __len__(self) -> int:
        return len(self.seeds)

    def holding(self, wanted: NDArray[np.bool_]) -> Patches:
        """The patches that hold at least one of the points of a mask (M,)."""
        some = wanted[self.rows].any(axis=1)
        return Patches(self.seeds[some], self.rows[some], self.sq_distances[some])

    @property
    def radii(self) -> FloatArray:
        """(P,): distance of the farthest point from its seed."""
        return np.asarray(np.sqrt(self.sq_distances.max(axis=1)))

    def weights(self, sharpness: float) -> FloatArray:
        """(P, N): exp(-sharpness d^2 / r^2) at distance d from the seed of a patch of radius r.

        A patch counts most near its centre, where the neighbourhoods are complete.
        """

        def weigh(part: slice) -> FloatArray:
            sq_distances = self.sq_distances[part]
            sq_radii = np.maximum(sq_distances.max(axis=1, keepdims=True), np.finfo(float).tiny)
            return np.asarray(np.exp(-sharpness * sq_distances / sq_radii))

        return fill_rows(np.empty_like(self.sq_distances), weigh, _PATCHES_IN_CACHE)


def cover(
    search: NeighborSearch,
    size: int,
    overlap: float,
    radius: float | None = None,
    cells: IntArray | None = None,
) -> Patches:
    """Patches of `size` points (fewer in a smaller cloud) around farthest-point seeds.

    search   the search of the cloud
    overlap  average number of patches per point; int(overlap M / size) seeds, as in the paper
    radius   None takes nearest neighbours; a number keeps patches inside a ball of that radius
             (supplement C.3), and the remaining places repeat the seed
    cells    (M,) the cell of each point of a large cloud, or None: seeds are chosen in each cell
             alone, so they do not depend on points far away

    Farthest-point seeds leave few points uncovered. Each further round adds patches around
    uncovered points, again farthest-point seeds, until every point is covered.
    """
    points = search.points
    size = min(size, len(points))
    covered = np.zeros(len(points), dtype=bool)
    if cells is None:
        count = min(len(points), max(1, int(overlap * len(points) / size)))
        seeds = farthest_point_sampling(search, count, outermost(points))
    else:
        seeds = _seeds_in_cells(points, np.arange(len(points)), cells, lambda n: overlap * n / size)
    rounds: list[tuple[IntArray, IntArray, FloatArray]] = []
    while True:
        rows, sq_distances = _grow(search, seeds, size, radius)
        if radius is not None and not rounds:
            _check_radius(radius, search, places=points[seeds], inside=(sq_distances > 0).sum(1))
        rounds.append((seeds, rows, sq_distances))
        covered[rows] = True
        missed = np.flatnonzero(~covered)
        if not len(missed) and len(rounds) == 1:
            return Patches(*rounds[0])
        if not len(missed):
            return Patches(*(np.concatenate(parts) for parts in zip(*rounds, strict=True)))
        if cells is None:
            lost = points[missed]
            more = -(-4 * len(lost) // size)
            seeds = missed[farthest_point_sampling(lost, more, outermost(lost))]
        else:
            seeds = _seeds_in_cells(points, missed, cells[missed], lambda n: -(-4 * n // size))


def outermost(points: FloatArray) -> int:
    """The row of `points` (M, 3) that is farthest from their mean.

    Seeds that begin there do not depend on the order of rows or on rotation.

    >>> outermost(np.array([[0.0, 0, 0], [1, 0, 0], [9, 0, 0]]))
    2
    """
    return int(((points - points.mean(axis=0)) ** 2).sum(axis=1).argmax())


def _seeds_in_cells(
    points: FloatArray, rows: IntArray, cells: IntArray, wanted: Callable[[int], float]
) -> IntArray:
    """Farthest-point seeds among some rows (m,) of a cloud, in each of their cells (m,) alone.

    wanted  number of seeds for a number of points, rounded down
    """
    order, starts = _sort_by_cell(cells, int(cells.max()) + 1)
    held = np.diff(starts)
    counts = np.array([min(n, int(wanted(n))) for n in held.tolist()])
    return farthest_points_of_groups(points, rows[order], starts, counts)


@compiled
def _sort_by_cell(cells: IntArray, count: int) -> tuple[IntArray, IntArray]:
    """The stable order (m,) of cells (m,) from 0 to `count - 1`, and where each starts."""
    starts = np.zeros(count + 1, np.int64)
    for place in range(len(cells)):
        starts[cells[place] + 1] += 1
    starts = np.cumsum(starts)
    free = starts.copy()
    order = np.empty(len(cells), np.int64)
    for place in range(len(cells)):
        order[free[cells[place]]] = place
        free[cells[place]] += 1
    return order, starts


def _check_radius(
    radius: float, search: NeighborSearch, places: FloatArray, inside: IntArray
) -> None:
    """Refuse a radius whose patches hold so few points that far too many would be needed.

    places  (P, 3) of as many seeds as patches of full size need
    inside  (P,) points of the patches around them, without the seeds
    """
    needed = len(search) / (1 + float(inside.mean()))
    if needed <= max(FEW_PATCHES, MOST_PATCHES * len(places)):
        return
    enough = len(search) // (MOST_PATCHES * len(places)) + 1
    sq_distances, _ = search.knn(places[:_PROBED_PLACES], min(enough, len(search)))
    raise PdflowError(
        f"Patches of radius {radius:g} hold {1 + float(inside.mean()):.2g} points on average, so "
        f"about {needed:.0f} of them would be needed: give a radius from "
        f"{2 * float(np.sqrt(np.median(sq_distances[:, -1]))):.2g} on, or none."
    )


def _grow(
    search: NeighborSearch, seeds: IntArray, size: int, radius: float | None
) -> tuple[IntArray, FloatArray]:
    """Rows and squared distances (P, size) around seeds (P,), each seed first."""
    places = search.points[seeds]
    if radius is None:
        sq_distances, rows = search.knn(places, size)
    else:
        rows, _ = search.ball_query(places, radius, size)
        sq_distances = ((search.points[rows] - places[:, None]) ** 2).sum(axis=2)
    # If a patch is full of duplicates of its seed, the seed itself may be missing.
    lacking = np.flatnonzero(rows[:, 0] != seeds)
    lacking = lacking[~(rows[lacking] == seeds[lacking, None]).any(axis=1)]
    rows[lacking, 0] = seeds[lacking]
    return rows, sq_distances


@dataclass(frozen=True)
class PatchFrames:
    """For each patch, the map x -> (x - origin) / scale, turned by axes, + offset.

    origin (P, 3), scale (P,), offset (P, 3)
    axes   (P, 3, 3) directions, as columns, that become the axes of the network's frame
    """

    origin: FloatArray
    scale: FloatArray
    offset: FloatArray
    axes: FloatArray

    def cut(
        self, points: FloatArray, rows: IntArray, dtype: type[np.floating] = np.float64
    ) -> NDArray[Any]:
        """Rows (P, N) of a cloud (M, 3), as patches (P, N, 3) in the network's frame."""
        patches = np.empty((*rows.shape, 3), dtype)
        run_in_threads(_cut, len(rows), points, rows, *self._parts, patches, grain=_FEW_PATCHES)
        return patches

    def undo(self, patches: NDArray[np.floating]) -> FloatArray:
        """Patches (P, N, 3), from the network's frame to the cloud's."""
        moved = np.empty(patches.shape)
        run_in_threads(_undo, len(patches), patches, *self._parts, moved, grain=_FEW_PATCHES)
        return moved

    def __getitem__(self, part: slice) -> PatchFrames:
        return PatchFrames(*(whole[part] for whole in self._parts))

    @property
    def _parts(self) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        return self.origin, self.scale, self.offset, self.axes


@compiled
def _cut(
    start: int,
    stop: int,
    points: FloatArray,
    rows: IntArray,
    origin: FloatArray,
    scale: FloatArray,
    offset: FloatArray,
    axes: FloatArray,
    patches: NDArray[np.floating],
) -> None:
    for patch in range(start, stop):
        for place in range(rows.shape[1]):
            row = rows[patch, place]
            x = (points[row, 0] - origin[patch, 0]) / scale[patch]
            y = (points[row, 1] - origin[patch, 1]) / scale[patch]
            z = (points[row, 2] - origin[patch, 2]) / scale[patch]
            for axis in range(3):
                turned = x * axes[patch, 0, axis]
                turned += y * axes[patch, 1, axis]
                turned += z * axes[patch, 2, axis]
                patches[patch, place, axis] = turned + offset[patch, axis]


@compiled
def _undo(
    start: int,
    stop: int,
    patches: NDArray[np.floating],
    origin: FloatArray,
    scale: FloatArray,
    offset: FloatArray,
    axes: FloatArray,
    moved: FloatArray,
) -> None:
    for patch in range(start, stop):
        for place in range(patches.shape[1]):
            x = patches[patch, place, 0] - offset[patch, 0]
            y = patches[patch, place, 1] - offset[patch, 1]
            z = patches[patch, place, 2] - offset[patch, 2]
            for axis in range(3):
                turned = x * axes[patch, axis, 0]
                turned += y * axes[patch, axis, 1]
                turned += z * axes[patch, axis, 2]
                moved[patch, place, axis] = turned * scale[patch] + origin[patch, axis]


def patch_frames(
    points: FloatArray,
    patches: Patches,
    sphere: Frame,
    known_radii: tuple[float, float],
    trained_size: int,
    centred: bool,
) -> PatchFrames:
    """Frames in which every patch resembles those a network was trained on.

    points        (M, 3) the cloud
    sphere        its unit-sphere frame
    known_radii   smallest and largest radius of training patches in the unit sphere; a patch
                  within this range keeps the cloud's scale, any other is scaled to the nearer
                  end, so that the network knows its density
    trained_size  points of a training patch; the radius of a smaller patch is extrapolated to it
    centred       whether training patches had their seed at the origin; otherwise the seed
                  stays where the unit sphere has it, and axes keep their directions

    The map moves and scales with the cloud, so denoising does too. Centred patches are also turned
    to their principal axes. A network that was trained in all orientations still answers each a
    little differently; this way a rotation of the cloud does not change the answer.
    """
    origin = points[patches.seeds]
    radii = patches.radii * np.sqrt(trained_size / patches.rows.shape[1])
    wanted = np.clip(radii / sphere.scale, *known_radii)
    scale = np.where(radii > 0, radii / wanted, sphere.scale)
    upright = np.tile(np.eye(3), (len(patches), 1, 1))
    if not centred:
        return PatchFrames(origin, scale, sphere.apply(origin), upright)
    frames = PatchFrames(origin, scale, np.zeros_like(origin), upright)
    return replace(frames, axes=axes_of_patches(frames.cut(points, patches.rows)))
