"""Exact distances along a surface: unfolded closed forms, libigl, and odd meshes."""

from __future__ import annotations

import igl
import numpy as np
import pytest
import trimesh
from numpy.typing import NDArray

from pdflow.errors import PdflowError
from pdflow.geometry.triangles import closest_on_mesh
from pdflow.mesh import TriangleMesh
from pdflow.metrics.geodesic import geodesic_distances, locate, surface_graph


def distances(
    mesh: TriangleMesh, source: list[float], targets: list[list[float]], reach: float = np.inf
) -> NDArray[np.float64]:
    """Distances along a mesh between points given in space."""
    graph, clean = surface_graph(mesh)
    _, faces, points = closest_on_mesh(targets, clean)
    _, source_face, start = closest_on_mesh([source], clean)
    located = locate(points, faces, len(clean.faces))
    return geodesic_distances(graph, start[0], int(source_face[0]), located, reach)


def bumpy_grid(size: int, height: float) -> TriangleMesh:
    x, y = np.meshgrid(np.arange(size), np.arange(size), indexing="ij")
    z = height * np.random.default_rng(2).standard_normal((size, size))
    corner = (np.arange(size - 1)[:, None] * size + np.arange(size - 1)).reshape(-1, 1)
    turns = [np.array(t) for t in ([0, size, size + 1], [0, size + 1, 1])]
    return TriangleMesh(
        np.stack([x, y, z], -1).reshape(-1, 3), np.concatenate([corner + t for t in turns])
    )


def test_around_the_edges_of_a_cube(cube: TriangleMesh) -> None:
    """From the middle of one side: to the next one over their edge, and to the opposite one."""
    found = distances(cube, [0.1, 0.2, 1], [[1, 0.2, 0.5], [1, -0.8, 0.5], [0.1, 0.2, -1]])
    expected = [0.9 + 0.5, np.hypot(1.4, 1.0), 0.8 + 2 + 0.8]
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_an_l_shaped_sheet_bends_the_path_at_its_inner_corner() -> None:
    mesh = TriangleMesh(
        [[0, 0, 0], [2, 0, 0], [2, 1, 0], [1, 1, 0], [1, 2, 0], [0, 2, 0], [0, 1, 0]],
        [[0, 1, 2], [0, 2, 3], [0, 3, 6], [6, 3, 4], [6, 4, 5]],
    )
    found = distances(mesh, [1.9, 0.9, 0], [[0.9, 1.9, 0], [0.1, 0.1, 0], [0.95, 1.5, 0]])
    around = np.hypot(0.9, 0.1)
    expected = [2 * around, np.hypot(1.8, 0.8), around + np.hypot(0.05, 0.5)]
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("shape", ["sphere", "torus", "bumpy", "flat"])
def test_agrees_with_libigl(shape: str, sphere: TriangleMesh) -> None:
    ring = trimesh.creation.torus(1, 0.3, major_sections=24, minor_sections=12)
    mesh = {
        "sphere": sphere,
        "torus": TriangleMesh(ring.vertices, ring.faces),
        "bumpy": bumpy_grid(12, 0.7),
        "flat": bumpy_grid(12, 0.0),
    }[shape]
    graph, mesh = surface_graph(mesh)
    middles = mesh.triangles.mean(1)
    every = np.arange(len(middles))
    located = locate(middles, every, len(middles))
    for face in (0, len(every) // 3):
        expected = igl.exact_geodesic(mesh.vertices, mesh.faces, FS=np.array([face]), FT=every)
        found = geodesic_distances(graph, middles[face], face, located, np.inf)
        np.testing.assert_allclose(found, expected, atol=1e-12)
        near = geodesic_distances(graph, middles[face], face, located, 0.4)
        np.testing.assert_array_equal(near, np.where(found <= 0.4, found, np.inf))


def test_great_circles_of_a_fine_sphere() -> None:
    ball = trimesh.creation.icosphere(subdivisions=4)
    rng = np.random.default_rng(3)
    ways = rng.standard_normal((2000, 3))
    ways /= np.linalg.norm(ways, axis=1, keepdims=True)
    found = distances(TriangleMesh(ball.vertices, ball.faces), ways[0].tolist(), ways.tolist(), 0.5)
    angles = np.arccos(np.clip(ways @ ways[0], -1, 1))
    near = np.isfinite(found) & (angles > 0.1)
    assert near.sum() > 50
    np.testing.assert_allclose(found[near], angles[near], rtol=2e-3)


def test_unmerged_corners_mixed_winding_and_collapsed_faces(sphere: TriangleMesh) -> None:
    """A soup of triangles, some turned round and some collapsed, is the same surface."""
    soup = sphere.triangles.copy()
    soup[::3] = soup[::3, ::-1]
    soup = np.concatenate([soup, soup[:5, [0, 0, 1]]])
    mixed = TriangleMesh(soup.reshape(-1, 3), np.arange(3 * len(soup)).reshape(-1, 3))
    source, targets = [0.2, 0.3, 0.9], sphere.vertices[::7].tolist()
    np.testing.assert_allclose(
        distances(mixed, source, targets), distances(sphere, source, targets), atol=1e-12
    )


def test_parts_that_do_not_touch_are_infinitely_far() -> None:
    apart = TriangleMesh(
        [[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 9], [1, 0, 9], [0, 1, 9]],
        [[0, 1, 2], [3, 4, 5]],
    )
    found = distances(apart, [0.1, 0.1, 0], [[0.2, 0.1, 0], [0.1, 0.1, 9]])
    np.testing.assert_allclose(found, [0.1, np.inf])


def test_only_collapsed_faces_are_refused() -> None:
    with pytest.raises(PdflowError, match="three different corners"):
        surface_graph(TriangleMesh([[0, 0, 0], [1, 0, 0]], [[0, 1, 1]]))
