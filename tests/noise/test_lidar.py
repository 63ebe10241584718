from typing import Any

import numpy as np
import pytest

from pdflow import PointCloud, TriangleMesh
from pdflow.errors import PdflowError
from pdflow.geometry import closest_on_mesh
from pdflow.noise import simulate_lidar

PERFECT: dict[str, Any] = {"level": 0, "range_step": 0, "angle_step": 0, "dropout": 0}
RADIUS = 50.0


@pytest.fixture(scope="module")
def ball() -> TriangleMesh:
    """A sphere of radius 50 around (1000, 2000, 3000), as faces between circles of latitude."""
    rings, sectors = 40, 80
    theta, phi = np.meshgrid(
        np.linspace(0, np.pi, rings + 1), np.linspace(0, 2 * np.pi, sectors + 1), indexing="ij"
    )
    unit = np.stack(
        [np.sin(theta) * np.cos(phi), np.sin(theta) * np.sin(phi), np.cos(theta)], axis=-1
    )
    ring, sector = np.mgrid[:rings, :sectors]
    a = ring * (sectors + 1) + sector
    b, c, d = a + 1, a + sectors + 1, a + sectors + 2
    faces = np.concatenate([np.stack([a, c, b], -1), np.stack([b, c, d], -1)]).reshape(-1, 3)
    return TriangleMesh(unit.reshape(-1, 3) * RADIUS + [1000, 2000, 3000], faces)


@pytest.fixture(scope="module")
def room() -> TriangleMesh:
    """A cube from -1 to 1, to be scanned from within."""
    corners = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)])
    sides = [[0, 1, 3, 2], [4, 6, 7, 5], [0, 4, 5, 1], [2, 3, 7, 6], [0, 2, 6, 4], [1, 5, 7, 3]]
    return TriangleMesh(corners, [f for a, b, c, d in sides for f in ([a, b, c], [a, c, d])])


def off_surface(scan: PointCloud, mesh: TriangleMesh) -> np.ndarray:
    return np.asarray(np.sqrt(closest_on_mesh(scan.points, mesh)[0]))


def same_ray(first: PointCloud, second: PointCloud) -> bool:
    return all(
        np.array_equal(first.attributes[name], second.attributes[name]) for name in ("scan", "beam")
    )


def test_a_perfect_scanner_measures_points_of_the_surface(ball: TriangleMesh) -> None:
    scan = simulate_lidar(ball, beams=32, azimuths=64, **PERFECT)
    assert off_surface(scan, ball).max() < 1e-9
    # A window around a sphere is nearly square, and the sphere fills pi / 4 of it.
    assert 0.65 < len(scan) / (6 * 32 * 64) < 0.85
    assert set(scan.attributes["scan"]) == set(range(6))
    assert set(scan.attributes["beam"]) == set(range(32))
    assert scan.attributes["scan"].dtype == scan.attributes["beam"].dtype == np.uint16
    assert scan.attributes["intensity"].dtype == np.float32


def test_only_the_side_towards_the_head_is_seen(ball: TriangleMesh) -> None:
    head = np.array([1000.0, 2000 - 200, 3000])
    scan = simulate_lidar(ball, heads=[head], beams=32, azimuths=64, **PERFECT)
    assert scan.points[:, 1].max() < 2000
    assert np.allclose(np.linalg.norm(scan.points - head, axis=1), scan.attributes["range"])
    towards = (head - scan.points) / scan.attributes["range"][:, None]
    normals = (scan.points - [1000, 2000, 3000]) / RADIUS
    cosines = (towards * normals).sum(1)
    assert np.abs(scan.attributes["intensity"] - cosines).max() < 0.1
    assert scan.attributes["intensity"].min() >= np.cos(np.radians(85)) - 1e-6


def test_several_heads_see_the_object_from_all_sides(ball: TriangleMesh) -> None:
    scan = simulate_lidar(ball, beams=32, azimuths=64)
    octants = np.unique(scan.points > [1000, 2000, 3000], axis=0)
    assert len(octants) == 8


def test_range_noise_is_along_the_ray_and_has_the_level(ball: TriangleMesh) -> None:
    options = {**PERFECT, "beams": 48, "azimuths": 96, "heads": [[1000, 2000, 3500]]}
    exact = simulate_lidar(ball, **options)
    noisy = simulate_lidar(ball, **{**options, "level": 0.02})
    assert same_ray(exact, noisy)
    error = noisy.attributes["range"] - exact.attributes["range"]
    assert abs(error.std() / (0.02 * RADIUS) - 1) < 0.05
    assert abs(error.mean()) < 5 * 0.02 * RADIUS / np.sqrt(len(error))
    across = np.cross(noisy.points - exact.points, exact.points - [1000, 2000, 3500])
    assert np.abs(across).max() < 1e-6


def test_ranges_are_counted_in_steps(ball: TriangleMesh) -> None:
    scan = simulate_lidar(ball, beams=32, azimuths=32, range_step=0.01)
    steps = scan.attributes["range"] / (0.01 * RADIUS)
    assert np.abs(steps - np.round(steps)).max() < 1e-9


def test_angles_are_rounded_across_the_ray_only(ball: TriangleMesh) -> None:
    options = {**PERFECT, "beams": 32, "azimuths": 64, "heads": [[1000, 2200, 3000]]}
    exact = simulate_lidar(ball, **options)
    coarse = simulate_lidar(ball, **{**options, "angle_step": 0.5})
    assert np.array_equal(exact.attributes["range"], coarse.attributes["range"])
    moved = np.linalg.norm(coarse.points - exact.points, axis=1) / exact.attributes["range"]
    half_step = np.radians(0.25)
    assert 0.5 * half_step < moved.max() < 1.01 * np.sqrt(2) * half_step
    offset = coarse.points - [1000, 2200, 3000]
    elevation = np.degrees(np.arcsin(offset[:, 2] / coarse.attributes["range"]))
    assert np.abs(elevation / 0.5 - np.round(elevation / 0.5)).max() < 1e-9


def test_dropouts_are_lost_at_random(ball: TriangleMesh) -> None:
    whole = simulate_lidar(ball, beams=32, azimuths=64, dropout=0)
    thinned = simulate_lidar(ball, beams=32, azimuths=64, dropout=0.25)
    assert abs(len(thinned) / len(whole) - 0.75) < 0.03
    rows = {row.tobytes() for row in whole.points}
    assert all(row.tobytes() in rows for row in thinned.points)


def test_grazing_beams_do_not_return(ball: TriangleMesh) -> None:
    scan = simulate_lidar(ball, beams=32, azimuths=64, grazing=60)
    assert scan.attributes["intensity"].min() >= 0.5 - 1e-6


def test_a_head_inside_looks_all_around(room: TriangleMesh) -> None:
    scan = simulate_lidar(room, heads=[[0.1, 0.2, 0.3]], beams=40, azimuths=80, **PERFECT)
    assert len(scan) == 40 * 80
    assert off_surface(scan, room).max() < 1e-12
    assert np.allclose(scan.bounds, [[-1, -1, -1], [1, 1, 1]])


def test_a_seed_repeats_the_scan_and_another_does_not(ball: TriangleMesh) -> None:
    first, again, other = (simulate_lidar(ball, beams=8, azimuths=16, seed=s) for s in (2, 2, 3))
    assert np.array_equal(first.points, again.points)
    assert same_ray(first, again)
    assert first.points.shape != other.points.shape or not np.array_equal(
        first.points, other.points
    )


def test_the_scan_scales_with_the_mesh(ball: TriangleMesh) -> None:
    larger = TriangleMesh(ball.vertices * 4, ball.faces)
    options = {"beams": 16, "azimuths": 32, "range_step": 0}
    scan, larger_scan = simulate_lidar(ball, **options), simulate_lidar(larger, **options)
    assert np.allclose(scan.points * 4, larger_scan.points, atol=1e-6)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"level": -0.1}, "noise level -0.1"),
        ({"level": np.nan}, "noise level nan"),
        ({"beams": 0}, "0 beams"),
        ({"azimuths": 70_000}, "70000 azimuths"),
        ({"heads": 0}, "0 heads"),
        ({"heads": -2}, "0 heads"),
        ({"heads": [[np.nan, 0, 0]]}, "Heads"),
        ({"range_step": -1}, "range step -1"),
        ({"angle_step": np.nan}, "angle step nan"),
        ({"dropout": 1.0}, "dropout 1.0"),
        ({"grazing": 0}, "grazing angle 0"),
        ({"seed": -1}, "seed -1"),
    ],
)
def test_impossible_scanners_are_refused(
    room: TriangleMesh, options: dict[str, Any], said: str
) -> None:
    with pytest.raises(PdflowError, match=said):
        simulate_lidar(room, **options)


def test_a_mesh_that_returns_nothing_is_refused() -> None:
    with pytest.raises(PdflowError, match="no faces"):
        simulate_lidar(TriangleMesh(np.eye(3), np.empty((0, 3))))
    needle = TriangleMesh([[0, 0, 0], [0, 0, 1], [0, 0, 2]], [[0, 1, 2]])
    with pytest.raises(PdflowError, match="No beam came back"):
        simulate_lidar(needle, beams=4, azimuths=4)
