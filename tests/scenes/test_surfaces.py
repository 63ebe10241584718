from __future__ import annotations

import numpy as np
import pytest

from pdflow.geometry.frame import unit_sphere
from pdflow.scenes.fields import frame_of, log_uniform, random_direction, smooth_field
from pdflow.scenes.objects import OBJECTS, plates
from pdflow.scenes.places import terrain
from pdflow.scenes.surface import (
    BUILDING,
    GROUND,
    POLE,
    TREE,
    WIRE,
    box,
    extruded,
    face_normals,
    tube,
    vertex_normals,
)
from pdflow.scenes.surfaces import SURFACES


@pytest.mark.parametrize("name", SURFACES)
def test_every_surface_is_a_mesh_with_classes_and_is_drawn_by_its_seed(name: str) -> None:
    for seed in range(3):
        surface = SURFACES[name](np.random.default_rng(seed))
        again = SURFACES[name](np.random.default_rng(seed))
        assert np.array_equal(surface.mesh.vertices, again.mesh.vertices)
        assert np.isfinite(surface.mesh.vertices).all()
        assert surface.classes.shape == (len(surface.mesh.faces),)
        assert surface.mesh.areas.sum() > 0
        assert len(surface.mesh.faces) < 100_000
    other = SURFACES[name](np.random.default_rng(100))
    assert other.mesh.vertices.shape != surface.mesh.vertices.shape or not np.allclose(
        other.mesh.vertices, surface.mesh.vertices
    )


@pytest.mark.parametrize("name", OBJECTS)
def test_objects_have_about_the_radius_one(name: str) -> None:
    radii = [
        unit_sphere(OBJECTS[name](np.random.default_rng(seed)).mesh.vertices).scale
        for seed in range(5)
    ]
    assert 0.4 < min(radii) < max(radii) < 1.5


def test_plates_are_as_far_apart_as_asked_and_have_the_radius_one() -> None:
    for seed in range(4):
        mesh = plates(np.random.default_rng(seed), gap=0.02).mesh
        lower, upper = np.split(mesh.vertices, 2)
        assert upper - lower == pytest.approx(np.tile([0, 0, 0.02], (len(lower), 1)))
        assert unit_sphere(mesh.vertices).scale == pytest.approx(1, abs=0.03)


def test_terrain_has_all_its_classes_and_stations_above_the_ground() -> None:
    surfaces = [terrain(np.random.default_rng(seed)) for seed in range(4)]
    found = np.concatenate([surface.classes for surface in surfaces])
    assert set(found.tolist()) == {GROUND, TREE, BUILDING, WIRE, POLE}
    for surface in surfaces:
        ground = surface.mesh.vertices[surface.mesh.faces[surface.classes == GROUND].ravel()]
        for station in surface.stations:
            below = ground[np.argmin(np.linalg.norm(ground[:, :2] - station[:2], axis=1))]
            assert 1 < station[2] - below[2] < 2.5


def test_there_is_no_ground_inside_buildings() -> None:
    surface = terrain(np.random.default_rng(0))
    corners = surface.mesh.triangles
    walls = corners[surface.classes == BUILDING][:8].reshape(-1, 3)
    middle = corners[surface.classes == GROUND].mean(axis=1)
    inside = np.linalg.norm(middle[:, :2] - walls[:, :2].mean(axis=0), axis=1) < 1.5
    assert not inside.any()


def test_pieces_are_closed_where_they_say_so() -> None:
    """Every edge of a closed mesh has two faces, and the normals of all sum to nothing."""
    path = np.column_stack([np.linspace(0, 1, 5), np.zeros(5), np.zeros(5)])
    for mesh in (box((0, 0, 0), (1, 2, 3), 0.3), tube(path, np.full(5, 0.1), 6)):
        total = (mesh.areas[:, None] * face_normals(mesh)).sum(0)
        assert np.abs(total).max() < 1e-12
    lidless = box((0, 0, 0), (1, 2, 3), bottom=False)
    assert (lidless.areas[:, None] * face_normals(lidless)).sum(0)[2] == pytest.approx(2)
    assert box((0, 0, 0), (1, 2, 3)).areas.sum() == pytest.approx(22)
    profile = np.array([[0, 0], [1, 0], [1, 1.0]])
    assert extruded(profile, 2, closed=False).areas.sum() == pytest.approx(4)
    assert extruded(profile, 2, closed=True).areas.sum() == pytest.approx(4 + 2 * np.sqrt(2))


def test_normals_of_a_tube_point_away_from_its_middle() -> None:
    path = np.column_stack([np.linspace(0, 1, 9), np.zeros(9), np.zeros(9)])
    mesh = tube(path, np.full(9, 0.1), 24)
    inner = np.abs(mesh.vertices[:, 0] - 0.5) < 0.3
    outwards = mesh.vertices[inner] * [0, 10, 10]
    assert np.abs((vertex_normals(mesh)[inner] * outwards).sum(1)).min() > 0.99


def test_smooth_fields_have_unit_variance_and_the_correlation_they_say() -> None:
    rng = np.random.default_rng(0)
    x = np.linspace(0, 200, 4001)[:, None]
    values = np.stack([smooth_field(x, 2.0, rng, 256) for _ in range(20)])
    assert values.var() == pytest.approx(1, abs=0.05)
    lag = (values[:, :-40] * values[:, 40:]).mean() / values.var()
    assert lag == pytest.approx(np.exp(-1), abs=0.05)


def test_draws_keep_their_bounds_and_frames_are_orthonormal() -> None:
    rng = np.random.default_rng(0)
    drawn = [log_uniform(rng, 0.1, 10) for _ in range(500)]
    assert 0.1 <= min(drawn) < max(drawn) <= 10
    assert np.median(drawn) == pytest.approx(1, rel=0.4)
    axis = random_direction(rng)
    frame = np.stack([axis, *frame_of(axis, 0.7)])
    assert frame @ frame.T == pytest.approx(np.eye(3), abs=1e-12)
