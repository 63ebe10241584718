from __future__ import annotations

import numpy as np
import pytest

from pdflow.geometry import closest_on_mesh, knn
from pdflow.scenes.rays import line_scanner, rotating_head
from pdflow.scenes.scan import Scan, depth_jumps
from pdflow.scenes.scanners import SCANNERS, even, fading, strokes, with_holes
from pdflow.scenes.surface import TREE, Surface, an_object, box, plane_grid, sheet
from pdflow.scenes.surfaces import SURFACES

COUNT = 3000


@pytest.fixture(scope="module", params=["torus", "boxes", "terrain", "room", "plates"])
def surface(request: pytest.FixtureRequest) -> Surface:
    return SURFACES[request.param](np.random.default_rng(5))


@pytest.mark.parametrize("name", SCANNERS)
def test_scans_lie_on_their_mesh_and_know_their_rays(name: str, surface: Surface) -> None:
    scan, again = (SCANNERS[name](surface, COUNT, np.random.default_rng(1)) for _ in range(2))
    assert np.array_equal(scan.points, again.points)
    count = len(scan)
    assert count == pytest.approx(COUNT, rel=0.1)
    for column, width in ((scan.points, 3), (scan.rays, 3), (scan.normals, 3), (scan.pixels, 2)):
        assert column.shape == (count, width)
    for column in (scan.ranges, scan.cosines, scan.scans, scan.classes):
        assert column.shape == (count,)
    size = scan.radius
    assert closest_on_mesh(scan.points, surface.mesh)[0].max() < (1e-12 * size) ** 2
    assert np.linalg.norm(scan.rays, axis=1) == pytest.approx(np.ones(count))
    assert np.linalg.norm(scan.normals, axis=1) == pytest.approx(np.ones(count))
    assert np.abs((scan.rays * scan.normals).sum(1)) == pytest.approx(scan.cosines, abs=1e-9)
    assert set(np.unique(scan.classes)) <= set(np.unique(surface.classes))
    origins = scan.points - scan.ranges[:, None] * scan.rays
    if name not in ("line-scanner",):
        for number in np.unique(scan.scans):
            station = origins[scan.scans == number]
            assert np.abs(station - station[0]).max() < 1e-9 * max(1, scan.ranges.max())


@pytest.mark.parametrize("name", ["line-scanner", "rotating-head", "depth-camera"])
def test_cast_points_are_the_first_on_their_ray_and_not_grazed(name: str) -> None:
    from pdflow.geometry import cast_rays

    surface = SURFACES["boxes"](np.random.default_rng(1))
    scan = SCANNERS[name](surface, COUNT, np.random.default_rng(2))
    origins = scan.points - scan.ranges[:, None] * scan.rays
    distances, _ = cast_rays(origins, scan.rays, surface.mesh)
    assert distances == pytest.approx(scan.ranges, rel=1e-9)
    assert scan.cosines.min() > np.cos(np.radians(80.1))
    assert np.isfinite(scan.pixels).all()


def test_what_hides_behind_something_is_not_seen() -> None:
    """A head on one side of a plate never sees a box behind it."""
    x, y = plane_grid(1, 1, 0.5)
    surface = an_object(sheet(x, y, np.zeros_like(x)), box((0, 0, -0.3), (0.2, 0.2, 0.2)))
    stations = np.array([[0.1, 0.2, 2.0], [-0.3, 0, 3.0], [0, 0.4, 2.5]])
    placed = Surface(surface.mesh, surface.classes, stations)
    scan = rotating_head(placed, COUNT, np.random.default_rng(0))
    assert scan.points[:, 2].min() > -1e-9


def test_distances_along_lines_are_far_below_those_between_them(square: Surface) -> None:
    below = Surface(square.mesh, square.classes, np.array([[0, 0, 3.0]]))  # scanned from above
    for seed in range(3):
        scan = line_scanner(below, COUNT, np.random.default_rng(seed), ratio=8.0)
        inside = np.flatnonzero(np.abs(scan.points[:, :2]).max(axis=1) < 0.7)
        sq_distances, rows = knn(scan.points, scan.points[inside], 60)
        other = scan.pixels[rows, 1] != scan.pixels[inside, 1][:, None]
        assert other.any(axis=1).all()
        between = np.sqrt(np.where(other, sq_distances, np.inf).min(axis=1))
        along = np.sqrt(sq_distances[:, 1])
        assert np.median(between) / np.median(along) == pytest.approx(8, rel=0.35)


def test_density_falls_by_the_ratio_asked_for(square: Surface) -> None:
    scan = fading(square, 40_000, np.random.default_rng(4), ratio=10.0)
    assert len(scan) == pytest.approx(40_000, abs=2)
    inner = scan.points[np.abs(scan.points[:, :2]).max(axis=1) < 0.9]
    _, rows = knn(scan.points, inner, 40)
    sq_reach = ((scan.points[rows[:, -1]] - inner) ** 2).sum(1)
    low, high = np.quantile(sq_reach, [0.01, 0.99])
    assert 5 < high / low < 14


def test_even_points_are_more_even_than_random_ones(square: Surface, scattered: Scan) -> None:
    scan = even(square, 5000, np.random.default_rng(0))
    nearest = np.sqrt(knn(scan.points, scan.points, 2)[0][:, 1])
    assert nearest.std() / nearest.mean() < 0.3
    nearest = np.sqrt(knn(scattered.points, scattered.points, 2)[0][:, 1])
    assert nearest.std() / nearest.mean() > 0.4


def test_strokes_are_straight_rows_of_points(square: Surface) -> None:
    scan = strokes(square, 4000, np.random.default_rng(0))
    sq_distances, _ = knn(scan.points, scan.points, 9)
    # The nearest ones lie along the stroke; the eighth is outside of it, or at its end.
    assert np.median(np.sqrt(sq_distances[:, 8] / sq_distances[:, 1])) > 3.5


def test_holes_are_empty_and_the_number_of_points_stays(square: Surface) -> None:
    scan = with_holes(even)(square, 4000, np.random.default_rng(3))
    assert len(scan) == pytest.approx(4000, abs=2)
    x, y = plane_grid(1, 1, 0.02)
    grid = np.column_stack([x.ravel(), y.ravel(), np.zeros(x.size)])
    reach = np.sqrt(knn(scan.points, grid, 1)[0][:, 0])
    assert reach.max() > 5 * scan.spacing


def test_a_scan_can_be_narrowed_to_some_of_its_points(scattered: Scan) -> None:
    rows = np.array([5, 3, 8])
    some = scattered[rows]
    assert len(some) == 3
    assert np.array_equal(some.points, scattered.points[rows])
    assert np.array_equal(some.cosines, scattered.cosines[rows])
    assert some.mesh is scattered.mesh


def test_leaves_are_loose_and_ground_is_not() -> None:
    surface = SURFACES["terrain"](np.random.default_rng(1))
    scan = SCANNERS["random"](surface, COUNT, np.random.default_rng(0))
    assert scan.loose[scan.classes == TREE].all()
    assert 0 < scan.loose.mean() < 0.5


def test_depth_jumps_are_found_at_edges_only(pictured: Scan) -> None:
    assert not depth_jumps(pictured).any()
    x, y = plane_grid(1, 1, 0.5)
    table = an_object(sheet(x, y, np.zeros_like(x)), box((0, 0, 1), (0.6, 0.6, 0.02)))
    stations = np.array([[0.0, 0.1, 4.0]])
    placed = Surface(table.mesh, table.classes, stations)
    scan = SCANNERS["depth-camera"](placed, 10_000, np.random.default_rng(0))
    jumps = depth_jumps(scan)
    edges = jumps != 0
    assert 0.005 < edges.mean() < 0.1
    above = scan.points[:, 2] > 0.5
    assert 0.8 < jumps[edges & above].min() < jumps[edges & above].max() < 1.3
    assert -1.3 < jumps[edges & ~above].min() < jumps[edges & ~above].max() < -0.8


def test_scans_without_a_grid_have_no_depth_jumps(scattered: Scan) -> None:
    assert not depth_jumps(scattered).any()
