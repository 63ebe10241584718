"""Point-to-mesh distance: closed forms, vertex order, subdivision, PyTorch3D's threshold."""

from __future__ import annotations

import igl
import numpy as np
import pytest
import trimesh
from numpy.typing import NDArray

from pdflow.errors import PdflowError
from pdflow.mesh import TriangleMesh
from pdflow.metrics import (
    point_errors,
    point_to_mesh,
    sq_point_to_mesh,
    sq_point_to_mesh_pytorch3d,
    surface_rms,
)
from pdflow.metrics.surface import mesh_distances

TRIANGLE = TriangleMesh([[-1, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
TRIANGLE_RADIUS = np.sqrt(1.25)  # from its bounding-box centre (0, 1/2, 0) to a lower corner


def test_points_above_one_triangle() -> None:
    points = [[0, 0.25, 0.5], [0, 0.25, -1.0]]
    scale = TRIANGLE_RADIUS
    assert sq_point_to_mesh(points, TRIANGLE) == pytest.approx((0.625 + 0.25) / scale**2)
    assert point_to_mesh(points, TRIANGLE) == pytest.approx((0.75 + 0.5) / scale)
    assert surface_rms(points, TRIANGLE) == pytest.approx(np.sqrt(0.625) / scale)


def test_sphere_against_its_mesh(sphere: TriangleMesh) -> None:
    """Points at radius 1.1 over the middle of every face: that far from the plane of the face."""
    middles = sphere.triangles.mean(1)
    heights = np.linalg.norm(middles, axis=1)
    normals = np.cross(*(sphere.triangles[:, 1:] - sphere.triangles[:, :1]).transpose(1, 0, 2))
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    points = middles + 0.1 * normals
    found = mesh_distances(points, sphere)
    np.testing.assert_allclose(found.sq_to_truth, 0.01, rtol=1e-9)
    np.testing.assert_allclose(found.sq_to_pred, 0.01, rtol=1e-9)
    assert sq_point_to_mesh(points, sphere) == pytest.approx(0.02)
    exact = (1.1 - 1) ** 2
    on_sphere = 1.1 * middles / heights[:, None]
    assert mesh_distances(on_sphere, sphere).sq_to_truth.mean() == pytest.approx(exact, rel=0.1)


def test_agrees_with_libigl(noisy_ball: NDArray[np.float64], sphere: TriangleMesh) -> None:
    sq, _, _ = igl.point_mesh_squared_distance(noisy_ball, sphere.vertices, sphere.faces)
    found = mesh_distances(noisy_ball, sphere)
    np.testing.assert_allclose(found.sq_to_truth, sq, atol=1e-12)
    assert surface_rms(noisy_ball, sphere) == pytest.approx(np.sqrt(sq.mean()), rel=1e-9)
    np.testing.assert_allclose(point_errors(noisy_ball, sphere), np.sqrt(sq), atol=1e-9)


def test_renumbering_changes_nothing(noisy_ball: NDArray[np.float64], sphere: TriangleMesh) -> None:
    rng = np.random.default_rng(3)
    order = rng.permutation(len(sphere.vertices))
    place = np.argsort(order)
    faces = np.roll(place[sphere.faces], 1, axis=1)[:, ::-1]
    mixed = TriangleMesh(sphere.vertices[order], rng.permutation(faces))
    for metric in (sq_point_to_mesh, point_to_mesh, sq_point_to_mesh_pytorch3d, surface_rms):
        before, after = metric(noisy_ball, sphere), metric(noisy_ball, mixed)
        assert after == pytest.approx(before, rel=1e-9)


def test_subdivision_leaves_the_point_term(
    noisy_ball: NDArray[np.float64], cube: TriangleMesh
) -> None:
    finer = TriangleMesh(*trimesh.remesh.subdivide(cube.vertices, cube.faces))
    before, after = mesh_distances(noisy_ball, cube), mesh_distances(noisy_ball, finer)
    np.testing.assert_allclose(after.sq_to_truth, before.sq_to_truth, atol=1e-12)
    assert after.sq_to_pred.mean() > 1.01 * before.sq_to_pred.mean()


def test_unused_vertices_and_degenerate_faces(
    noisy_ball: NDArray[np.float64], cube: TriangleMesh
) -> None:
    """Neither changes the distance of the points; a face without area is a segment."""
    vertices = np.concatenate([cube.vertices, [[99.0, 0, 0]]])
    faces = np.concatenate([cube.faces, [[0, 1, 1]]])
    found = mesh_distances(noisy_ball, TriangleMesh(vertices, faces))
    plain = mesh_distances(noisy_ball, cube)
    np.testing.assert_allclose(found.sq_to_truth, plain.sq_to_truth, atol=1e-12)
    assert np.isfinite(found.sq_to_pred).all()
    assert len(found.sq_to_pred) == 13


def test_pytorch3d_threshold(sphere: TriangleMesh, cube: TriangleMesh) -> None:
    """Below 5e-3 a triangle is its edges; above, both variants are the same."""
    middle = sphere.triangles.mean(1)[:1]
    small = TriangleMesh(*trimesh.remesh.subdivide(sphere.vertices, sphere.faces))
    assert small.areas.max() < 5e-3
    exact, thresholded = mesh_distances(middle, small), mesh_distances(middle, small, min_area=5e-3)
    assert exact.sq_to_truth[0] == pytest.approx(0, abs=1e-12)
    a, b, c = small.triangles[np.argmin(exact.sq_to_pred)]
    inradius = np.linalg.norm(np.cross(b - a, c - a)) / sum(
        np.linalg.norm(e) for e in (a - b, b - c, c - a)
    )
    assert np.sqrt(thresholded.sq_to_truth[0]) == pytest.approx(inradius, rel=0.1)
    assert sq_point_to_mesh_pytorch3d(middle, cube) == sq_point_to_mesh(middle, cube)


def test_point_errors_are_in_the_units_of_the_input() -> None:
    assert point_errors([[0, 0.25, 7.0]], TRIANGLE).tolist() == [7.0]
    assert point_errors([[0, 0, 7.0], [3, 4, 0]], [[0, 0, 0], [50, 0, 0]]).tolist() == [7, 5]


def test_bad_meshes_are_one_sentence() -> None:
    point = [[0.0, 0.0, 0.0]]
    none = TriangleMesh(np.zeros((3, 3)), np.empty((0, 3)))
    flat = TriangleMesh([[0, 0, 0], [1, 0, 0], [2, 0, 0]], [[0, 1, 2]])
    for metric in (sq_point_to_mesh, point_to_mesh, sq_point_to_mesh_pytorch3d, surface_rms):
        with pytest.raises(PdflowError, match="no faces"):
            metric(point, none)
        with pytest.raises(PdflowError, match="no area"):
            metric(point, flat)
