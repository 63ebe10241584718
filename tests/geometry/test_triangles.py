"""Exact triangle geometry against closed forms, brute force, libigl and trimesh."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import igl
import numpy as np
import pytest
import trimesh
from numpy.typing import NDArray

from pdflow.errors import PdflowError
from pdflow.geometry.triangles import cast_rays, closest_on_mesh, faces_to_points
from pdflow.mesh import TriangleMesh

TRIANGLE = TriangleMesh([[0, 0, 0], [4, 0, 0], [0, 3, 0]], [[0, 1, 2]])


def random_soup(seed: int, faces: int) -> TriangleMesh:
    """Unconnected triangles of very different sizes, slivers and degenerate faces among them."""
    rng = np.random.default_rng(seed)
    corners = rng.uniform(-1, 1, (faces, 1, 3))
    corners = corners + rng.standard_normal((faces, 3, 3)) * 10 ** rng.uniform(-4, 0, (faces, 1, 1))
    corners[0::7, 2] = corners[0::7, 1]  # a segment: two equal corners
    corners[1::7, 2] = 0.5 * (corners[1::7, 0] + corners[1::7, 1])  # a segment: corners in a row
    corners[2::7] = corners[2::7, :1]  # a point
    corners[3::7, 2] = corners[3::7, 1] + 1e-9 * rng.standard_normal((len(corners[3::7]), 3))
    return TriangleMesh(corners.reshape(-1, 3), np.arange(3 * faces).reshape(-1, 3))


def sphere(subdivisions: int = 3) -> TriangleMesh:
    ball = trimesh.creation.icosphere(subdivisions=subdivisions)
    return TriangleMesh(ball.vertices, ball.faces)


def distances_by_quadratic_program(
    points: NDArray[np.float64], mesh: TriangleMesh
) -> NDArray[np.float64]:
    """(M, F) squared distances: smallest over the plane's foot, the edges and the corners.

    An independent method: the foot comes from a least-squares solve, feasible or dropped.
    """
    table = np.empty((len(points), len(mesh.faces)))
    for f, (a, b, c) in enumerate(mesh.triangles):
        candidates = []
        for corner, spans in ((a, (b - a, c - a)), (a, (b - a,)), (b, (c - b,)), (c, (a - c,))):
            basis = np.stack(spans, axis=1)
            weights = np.linalg.lstsq(basis, (points - corner).T, rcond=1e-13)[0]
            inside = (weights >= 0).all(0) & (weights.sum(0) <= 1)
            feet = corner + (basis @ weights).T
            candidates.append(np.where(inside, ((points - feet) ** 2).sum(1), np.inf))
        candidates += [((points - corner) ** 2).sum(1) for corner in (a, b, c)]
        table[:, f] = np.min(candidates, axis=0)
    return table


@pytest.mark.parametrize(
    ("point", "foot"),
    [
        ([1, 1, 2], [1, 1, 0]),  # above the inside
        ([1, 1, 0], [1, 1, 0]),  # on it
        ([-3, -4, 0], [0, 0, 0]),  # beyond a corner
        ([9, -1, 1], [4, 0, 0]),
        ([0, 9, 0], [0, 3, 0]),
        ([2, -5, 1], [2, 0, 0]),  # beyond an edge
        ([-1, 1, 0], [0, 1, 0]),
        ([2 + 3, 1.5 + 4, 7], [2, 1.5, 0]),  # beyond the hypotenuse
    ],
)
def test_every_region_around_one_triangle(point: list[float], foot: list[float]) -> None:
    sq_distances, faces, closest = closest_on_mesh([point], TRIANGLE)
    expected = ((np.array(point, float) - foot) ** 2).sum()
    np.testing.assert_allclose(closest[0], foot, atol=1e-14)
    assert sq_distances[0] == pytest.approx(expected, abs=1e-14)
    assert faces[0] == 0
    assert faces_to_points(TRIANGLE, [point])[0] == pytest.approx(expected, abs=1e-14)


def test_degenerate_faces_are_segments_and_points() -> None:
    mesh = TriangleMesh([[0, 0, 0], [2, 0, 0], [1, 0, 0]], [[0, 1, 2], [1, 1, 1]])
    sq_distances, faces, closest = closest_on_mesh([[1.5, 2, 0], [9, 0, 0]], mesh)
    assert sq_distances.tolist() == [4.0, 49.0]
    assert closest.tolist() == [[1.5, 0, 0], [2, 0, 0]]
    assert faces[0] == 0
    assert faces_to_points(mesh, [[1.5, 2, 0], [9, 0, 0]]).tolist() == [4.0, 4.25]


def test_soup_with_slivers_and_degenerate_faces_against_brute_force() -> None:
    mesh = random_soup(seed=1, faces=140)
    points = np.random.default_rng(2).uniform(-1.5, 1.5, (300, 3))
    table = distances_by_quadratic_program(points, mesh)
    sq_distances, faces, closest = closest_on_mesh(points, mesh)
    np.testing.assert_allclose(sq_distances, table.min(1), atol=1e-12)
    np.testing.assert_allclose(table[np.arange(300), faces], table.min(1), atol=1e-12)
    np.testing.assert_allclose(((points - closest) ** 2).sum(1), sq_distances, atol=1e-12)
    np.testing.assert_allclose(faces_to_points(mesh, points), table.min(0), atol=1e-12)


def test_few_large_faces_and_many_points_against_brute_force() -> None:
    mesh = TriangleMesh([[-9, -9, 0], [9, -9, 0], [0, 9, 1], [0, 0, 30]], [[0, 1, 2], [0, 1, 3]])
    points = np.random.default_rng(3).uniform([-1, -1, 0.2], [1, 1, 2.2], (5000, 3))
    table = distances_by_quadratic_program(points, mesh)
    np.testing.assert_allclose(faces_to_points(mesh, points), table.min(0), atol=1e-12)
    np.testing.assert_allclose(closest_on_mesh(points, mesh)[0], table.min(1), atol=1e-12)


def test_agrees_with_libigl() -> None:
    mesh = sphere()
    points = np.random.default_rng(4).standard_normal((3000, 3))
    expected, _, feet = igl.point_mesh_squared_distance(points, mesh.vertices, mesh.faces)
    sq_distances, _, closest = closest_on_mesh(points, mesh)
    np.testing.assert_allclose(sq_distances, expected, atol=1e-12)
    np.testing.assert_allclose(closest, feet, atol=1e-12)


def test_agrees_with_trimesh() -> None:
    mesh = sphere(1)
    points = np.random.default_rng(5).standard_normal((200, 3))
    shape = trimesh.Trimesh(mesh.vertices, mesh.faces, process=False)
    expected = trimesh.proximity.closest_point_naive(shape, points)[1] ** 2
    np.testing.assert_allclose(closest_on_mesh(points, mesh)[0], expected, atol=1e-12)


def test_large_coordinates_keep_a_tenth_of_a_millimetre() -> None:
    far = np.array([5e5, 5.4e6, 300.0])
    mesh = sphere()
    points = np.random.default_rng(6).standard_normal((500, 3))
    near = closest_on_mesh(points, mesh)[0]
    moved = closest_on_mesh(points + far, TriangleMesh(mesh.vertices + far, mesh.faces))[0]
    np.testing.assert_allclose(np.sqrt(moved), np.sqrt(near), atol=1e-8)


def test_faces_that_count_as_edges() -> None:
    points = [[1, 1, 0], [1, 1, 1], [9, 0, 0]]
    sq_distances, _, closest = closest_on_mesh(points, TRIANGLE, edges_only=[True])
    np.testing.assert_allclose(sq_distances, [1, 2, 25])  # the nearest edge is one away
    assert closest[2].tolist() == [4, 0, 0]
    assert faces_to_points(TRIANGLE, points[1:], edges_only=[True]) == pytest.approx(2)
    with pytest.raises(PdflowError, match="one value per face"):
        closest_on_mesh(points, TRIANGLE, edges_only=[True, False])


def test_threads_at_once_give_the_same_answer() -> None:
    mesh = sphere()
    points = np.random.default_rng(7).standard_normal((9000, 3))
    expected = closest_on_mesh(points, mesh)[0]
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(lambda _: closest_on_mesh(points, mesh)[0], range(4)):
            np.testing.assert_array_equal(found, expected)


def test_rays_onto_a_sphere_hit_it_where_a_linear_solve_says() -> None:
    mesh = sphere(2)
    rng = np.random.default_rng(8)
    origins = rng.uniform(-3, 3, (400, 3))
    ways = rng.uniform(-1.5, 1.5, (400, 3)) - origins
    a, b, c = mesh.triangles.transpose(1, 0, 2)
    spans = np.broadcast_to(np.stack([b - a, c - a], axis=-1), (400, len(a), 3, 2))
    system = np.concatenate(
        [spans, -np.broadcast_to(ways[:, None, :, None], (400, len(a), 3, 1))], -1
    )
    u, v, t = np.linalg.solve(system, (origins[:, None] - a)[..., None])[..., 0].transpose(2, 0, 1)
    hits = (u >= 0) & (v >= 0) & (u + v <= 1) & (t >= 0)
    expected = np.where(hits, t, np.inf).min(1) * np.linalg.norm(ways, axis=1)
    distances, faces = cast_rays(origins, ways, mesh)
    assert 50 < np.isinf(expected).sum() < 350
    np.testing.assert_allclose(distances, expected, atol=1e-12)
    np.testing.assert_array_equal(faces >= 0, np.isfinite(expected))


def test_no_ray_slips_through_edges_and_corners() -> None:
    steps = np.linspace(0, 1, 9)
    x, y = np.meshgrid(steps, steps, indexing="ij")
    vertices = np.stack([x, y, 0.1 * x], axis=-1).reshape(-1, 3)
    corner = (np.arange(8)[:, None] * 9 + np.arange(8)).reshape(-1, 1)
    faces = np.concatenate([corner + np.array(turn) for turn in ([0, 9, 10], [0, 10, 1])])
    mesh = TriangleMesh(vertices, faces)
    inside = vertices[(vertices[:, :2] > 0).all(1) & (vertices[:, :2] < 1).all(1)]
    edges = 0.3 * vertices[faces[:, 0]] + 0.7 * vertices[faces[:, 2]]
    targets = np.concatenate([inside, edges])
    targets = targets[(targets[:, :2] > 0).all(1) & (targets[:, :2] < 1).all(1)]
    for eye in ([0.3, 0.4, 5.0], [1 / 3, -7.7, 2.1], [1e3, 1e3, 1e3]):
        distances, _ = cast_rays(np.tile(eye, (len(targets), 1)), targets - eye, mesh)
        reach = np.linalg.norm(targets - eye, axis=1)
        np.testing.assert_allclose(distances, reach, rtol=1e-9)


def test_rays_see_both_sides_skip_degenerate_faces_and_look_only_ahead() -> None:
    mesh = TriangleMesh(
        [[0, 0, 0], [4, 0, 0], [0, 3, 0], [0, 0, 1], [4, 0, 1]], [[0, 1, 2], [3, 4, 4]]
    )
    origins = [[1, 1, 5], [1, 1, -5], [1, 1, -5], [1, 0, 5], [5, 5, 5]]
    ways = [[0, 0, -1], [0, 0, 2], [0, 0, -1], [0, 0, -1], [0, 0, -1]]
    distances, faces = cast_rays(origins, ways, mesh)
    assert distances.tolist() == [5, 5, np.inf, 5, np.inf]
    assert faces.tolist() == [0, 0, -1, 0, -1]


def test_no_queries_give_empty_answers() -> None:
    none = np.empty((0, 3))
    assert closest_on_mesh(none, TRIANGLE)[2].shape == (0, 3)
    assert cast_rays(none, none, TRIANGLE)[0].shape == (0,)


def test_bad_input_is_one_sentence() -> None:
    empty = TriangleMesh(np.zeros((3, 3)), np.empty((0, 3)))
    with pytest.raises(PdflowError, match="no faces"):
        closest_on_mesh([[0, 0, 0]], empty)
    with pytest.raises(PdflowError, match="no faces"):
        faces_to_points(empty, [[0, 0, 0]])
    with pytest.raises(PdflowError, match="no faces"):
        cast_rays([[0, 0, 0]], [[0, 0, 1]], empty)
    with pytest.raises(PdflowError, match="no points"):
        faces_to_points(TRIANGLE, np.empty((0, 3)))
    with pytest.raises(PdflowError, match="shape"):
        closest_on_mesh([[0, 0]], TRIANGLE)
    with pytest.raises(PdflowError, match="first in row 1"):
        closest_on_mesh([[0, 0, 0], [0, np.nan, 0]], TRIANGLE)
    with pytest.raises(PdflowError, match="Face 0 has a corner"):
        closest_on_mesh([[0, 0, 0]], TriangleMesh([[np.inf, 0, 0]], [[0, 0, 0]]))
    with pytest.raises(PdflowError, match="Ray 1 has no direction"):
        cast_rays(np.zeros((2, 3)), [[0, 0, 1], [0, 0, 0]], TRIANGLE)
    with pytest.raises(PdflowError, match="2 ray origins but 1"):
        cast_rays(np.zeros((2, 3)), [[0, 0, 1]], TRIANGLE)
