import numpy as np
import pytest

from pdflow import TriangleMesh
from pdflow.errors import PdflowError
from pdflow.geometry import knn, sample_mesh


@pytest.fixture
def sheet() -> TriangleMesh:
    """Two triangles, the second three times as large, with two degenerate ones around."""
    vertices = [[0, 0, 0], [1, 0, 0], [0, 1, 0], [3, 0, 5], [3, 3, 5], [1, 0, 5], [9, 9, 9]]
    return TriangleMesh(vertices, [[0, 0, 6], [0, 1, 2], [0, 1, 1], [3, 4, 5], [6, 6, 6]])


@pytest.mark.parametrize("method", ["uniform", "even"])
def test_the_count_is_exact_and_each_point_lies_on_its_face(
    sheet: TriangleMesh, method: str
) -> None:
    points, faces = sample_mesh(sheet, 777, method=method)
    assert points.shape == (777, 3)
    assert faces.shape == (777,)
    assert faces.dtype == np.int64
    assert set(faces) == {1, 3}
    corners = sheet.triangles[faces]
    sides = corners[:, 1:] - corners[:, :1]
    inside, residual = [], []
    for side, offset in zip(sides, points - corners[:, 0], strict=True):
        weights, *_ = np.linalg.lstsq(side.T, offset, rcond=None)
        inside.append(weights.min() >= -1e-12 and weights.sum() <= 1 + 1e-12)
        residual.append(np.abs(side.T @ weights - offset).max())
    assert all(inside)
    assert max(residual) < 1e-12


def test_uniform_points_follow_the_area(sheet: TriangleMesh) -> None:
    points, faces = sample_mesh(sheet, 40_000, method="uniform")
    part = sheet.areas[3] / sheet.areas.sum()
    deviation = np.sqrt(part * (1 - part) / 40_000)
    assert abs((faces == 3).mean() - part) < 4 * deviation
    # Uniform in a triangle has the mean of the corners and this variance along a side.
    small = points[faces == 1]
    assert np.abs(small.mean(0) - [1 / 3, 1 / 3, 0]).max() < 4 * np.sqrt(1 / 18 / len(small))
    assert abs(small[:, 0].var() - 1 / 18) < 0.002


def test_even_points_keep_their_distance_and_leave_no_hole() -> None:
    square = TriangleMesh([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]], [[0, 1, 2], [0, 2, 3]])
    hexagonal = np.sqrt(2 / np.sqrt(3) / 2000)
    gaps, holes = {}, {}
    everywhere = sample_mesh(square, 50_000, method="uniform", seed=9)[0]
    for method in ("uniform", "even"):
        points, _ = sample_mesh(square, 2000, method=method)
        gaps[method] = np.sqrt(knn(points, points, 2)[0][:, 1].min()) / hexagonal
        holes[method] = np.sqrt(knn(points, everywhere, 1)[0].max()) / hexagonal
    assert gaps["even"] > 0.6 > 0.1 > gaps["uniform"]
    assert holes["even"] < 1.1 < 1.4 < holes["uniform"]


@pytest.mark.parametrize("method", ["uniform", "even"])
def test_a_seed_repeats_the_points_and_another_does_not(sheet: TriangleMesh, method: str) -> None:
    first, again, other = (sample_mesh(sheet, 50, method, seed=s)[0] for s in (3, 3, 4))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_meshes_far_from_the_origin_keep_their_points_on_the_surface() -> None:
    mesh = TriangleMesh([[5e5, 5e6, 100], [5e5 + 1, 5e6, 100], [5e5, 5e6 + 1, 100]], [[0, 1, 2]])
    points, _ = sample_mesh(mesh, 100)
    assert np.abs(points[:, 2] - 100).max() == 0
    assert points[:, 1].min() >= 5e6


@pytest.mark.parametrize(
    ("vertices", "faces"),
    [
        (np.zeros((3, 3)), [[0, 1, 2]]),
        ([[0, 0, 0], [1, 1, 1], [2, 2, 2]], [[0, 1, 2]]),
        (np.eye(3), np.empty((0, 3), int)),
        (np.empty((0, 3)), np.empty((0, 3), int)),
    ],
)
def test_a_mesh_without_area_is_refused(vertices: np.ndarray, faces: np.ndarray) -> None:
    with pytest.raises(PdflowError, match="no area"):
        sample_mesh(TriangleMesh(vertices, faces), 10)


def test_bad_requests_are_refused(sheet: TriangleMesh) -> None:
    with pytest.raises(PdflowError, match="even, uniform"):
        sample_mesh(sheet, 10, method="poisson")
    with pytest.raises(PdflowError, match="Cannot sample 0"):
        sample_mesh(sheet, 0)
    with pytest.raises(PdflowError, match="seed -1"):
        sample_mesh(sheet, 10, seed=-1)
    broken = TriangleMesh([[0, 0, np.nan], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
    with pytest.raises(PdflowError, match="Face 0"):
        sample_mesh(broken, 10)
