"""Objects of about radius 1: open sheets, thin plates, bodies with edges, round ones."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pdflow.mesh import TriangleMesh
from pdflow.scenes.fields import frame_of, log_uniform, random_direction, smooth_field, unit
from pdflow.scenes.relief import engraved
from pdflow.scenes.surface import (
    Surface,
    an_object,
    box,
    extruded,
    grid_mesh,
    plane_grid,
    rectangle,
    revolved,
    sheet,
    tube,
)

Generator = np.random.Generator

STEP = 0.03
"""Distance between the vertices of curved surfaces."""

FINE_STEP = 0.018
"""The same where a surface has relief."""

GAPS = (0.01, 0.3)
"""Smallest and largest distance between two thin plates."""


def bumpy_sheet(rng: Generator) -> Surface:
    """An open sheet with hills of two sizes."""
    x, y = plane_grid(rng.uniform(0.5, 0.8), rng.uniform(0.5, 0.8), STEP)
    places = np.stack([x, y], axis=-1)
    z = 0.15 * rng.random() * smooth_field(places, log_uniform(rng, 0.4, 1.2), rng)
    z += 0.03 * rng.random() * smooth_field(places, log_uniform(rng, 0.1, 0.3), rng)
    return an_object(sheet(x, y, z))


def saddle(rng: Generator) -> Surface:
    """An open sheet with two curvatures, or with a crease along a line."""
    x, y = plane_grid(rng.uniform(0.5, 0.8), rng.uniform(0.5, 0.8), STEP)
    turn = rng.uniform(0, np.pi)
    along, across = np.cos(turn) * x + np.sin(turn) * y, np.cos(turn) * y - np.sin(turn) * x
    if rng.random() < 0.5:
        first, second = rng.uniform(-0.8, 0.8, 2)
        return an_object(sheet(x, y, first * along**2 + second * across**2))
    slope, rounding = rng.uniform(0.3, 1.5), rng.choice([0.0, log_uniform(rng, 0.01, 0.2)])
    return an_object(sheet(x, y, -slope * np.sqrt(across**2 + rounding**2)))


def cloth(rng: Generator) -> Surface:
    """A wavy cloth: folds along one direction that fan out, and a border that is not straight."""
    x, y = plane_grid(rng.uniform(0.5, 0.8), rng.uniform(0.5, 0.8), STEP)
    places = np.stack([x, y], axis=-1)
    bend = 0.08 * smooth_field(places, 0.6, rng)
    phase = (x + bend) * log_uniform(rng, 6, 16) + rng.uniform(0.5, 3) * y
    fall = 1 / (1 + np.exp(-4 * y))
    z = rng.uniform(0.05, 0.15) * fall * np.sin(phase) - rng.uniform(0, 0.5) * x**2
    return an_object(sheet(x + bend, y + 0.06 * smooth_field(places, 0.4, rng), z))


def plates(rng: Generator, gap: float | None = None) -> Surface:
    """Two thin open plates above each other; without a `gap` it is drawn from GAPS.

    Both are bent alike, so that the gap is the same everywhere; often they are flat. The radius
    of the pair is close to 1.
    """
    gap = log_uniform(rng, *GAPS) if gap is None else gap
    half_x = rng.uniform(0.6, 0.8)
    x, y = plane_grid(half_x, np.sqrt(1 - half_x**2), STEP)
    bent = rng.choice([0.0, 1.0])
    z = bent * (rng.uniform(-0.3, 0.3) * x**2 + rng.uniform(-0.3, 0.3) * y**2)
    return an_object(sheet(x, y, z - gap / 2), sheet(x, y, z + gap / 2))


def slab(rng: Generator) -> Surface:
    """A closed plate: thin, with straight sides."""
    sides = [*rng.uniform(0.8, 1.6, 2), log_uniform(rng, 0.02, 0.2)]
    return an_object(box((0, 0, 0), sides, rng.uniform(0, np.pi)))


def rods(rng: Generator) -> Surface:
    """Straight rods, bent tubes and springs of several thicknesses, which do not touch."""
    count = int(rng.integers(3, 7))
    t = np.linspace(-1, 1, 60)
    meshes = []
    for place in np.linspace(-0.7, 0.7, count):
        radius = log_uniform(rng, 0.02, 0.25 / count)
        bend = rng.uniform(-0.25, 0.25)
        kind = rng.choice(["straight", "bent", "spring"])
        path = np.column_stack([np.full_like(t, place), 0.8 * t, np.zeros_like(t)])
        if kind == "bent":
            path[:, 2] += bend * np.cos(np.pi * t)
        elif kind == "spring":
            swing, turns = 0.5 / count, rng.uniform(6, 14)
            radius = min(radius, 0.3 * swing)
            path[:, 0] += swing * np.cos(turns * t)
            path[:, 2] += swing * np.sin(turns * t)
        meshes.append(tube(path, np.full(len(t), radius)))
    return an_object(*meshes)


def limbs(rng: Generator) -> Surface:
    """Bent limbs that get thinner towards round ends, as fingers and horns do."""
    count = int(rng.integers(2, 6))
    meshes = []
    for place in np.linspace(-0.6, 0.6, count):
        thick = log_uniform(rng, 0.04, 0.4 / count)
        thin = log_uniform(rng, 0.015, thick)
        length = rng.uniform(0.8, 1.5)
        # Half spheres close both ends; the path has more points there.
        turns = np.linspace(0, np.pi / 2, 8)
        first, last = thick * (1 - np.cos(turns)), length - thin * (1 - np.cos(turns[::-1]))
        along = np.concatenate([first, np.linspace(thick, length - thin, 40)[1:-1], last])
        radii = thick + (thin - thick) * np.clip((along - thick) / (length - thick - thin), 0, 1)
        radii[: len(first)], radii[-len(last) :] = thick * np.sin(turns), thin * np.sin(turns[::-1])
        bends = rng.uniform(-0.3, 0.3, 2)
        share = along / length
        path = np.column_stack([
            place + 0.3 / count * rng.uniform(-1, 1) * np.sin(np.pi * share),
            along - length / 2,
            bends[0] * share**2 + bends[1] * np.sin(np.pi * share),
        ])  # fmt: skip
        meshes.append(tube(path, radii, 16))
    return an_object(*meshes)


def boxes(rng: Generator) -> Surface:
    """Boxes of all sizes on a plate."""
    meshes = [rectangle(np.array([-0.75, -0.75, 0]), np.array([1.5, 0, 0]), np.array([0, 1.5, 0]))]
    for x in (-0.45, 0.0, 0.45):
        for y in (-0.45, 0.0, 0.45):
            if rng.random() < 0.6:
                wide, deep = rng.uniform(0.08, 0.3, 2)
                high = log_uniform(rng, 0.03, 0.6)
                center = (x, y, high / 2)
                turn = rng.uniform(0, np.pi)
                meshes.append(box(center, (wide, deep, high), turn, bottom=False))
    return an_object(*meshes)


def stairs(rng: Generator) -> Surface:
    """Steps with sharp edges, between two creased landings."""
    steps = int(rng.integers(3, 9))
    tread, rise = np.array([1.2, rng.uniform(0.5, 1.2)]) / steps
    profile = [(-0.3, 0.0)]
    for i in range(steps):
        profile += [(i * tread, i * rise), (i * tread, (i + 1) * rise)]
    profile.append((steps * tread + 0.3, steps * rise))
    middle = np.array([0.6, steps * rise / 2])
    return an_object(extruded(np.array(profile) - middle, rng.uniform(0.6, 1.4), closed=False))


def profile_bar(rng: Generator) -> Surface:
    """A bar with an L or T profile, as steel is rolled: thin walls, sharp inner and outer edges."""
    thick = log_uniform(rng, 0.04, 0.2)
    wide, high, length = rng.uniform(0.5, 0.9), rng.uniform(0.5, 0.9), rng.uniform(0.8, 1.6)
    left = 0.0 if rng.random() < 0.5 else (wide - thick) / 2
    outline = [(0, 0), (wide, 0), (wide, thick), (left + thick, thick), (left + thick, high),
               (left, high)]  # fmt: skip
    if left:
        outline += [(left, thick), (0, thick)]
    bar = extruded(np.array(outline, dtype=np.float64), length, closed=True)
    ends = []
    for y in (-length / 2, length / 2):
        for corner, size in (((0, 0), (wide, thick)), ((left, thick), (thick, high - thick))):
            start = np.array([corner[0], y, corner[1]])
            ends.append(rectangle(start, np.array([size[0], 0, 0]), np.array([0, 0, size[1]])))
    return an_object(bar, *ends)


def rounded_box(rng: Generator) -> Surface:
    """A box whose edges are rounded, more or less."""
    half = rng.uniform(0.3, 0.6, 3)
    radius = log_uniform(rng, 0.02, 0.9) * half.min()
    ball = _ball(STEP)
    # Ball vertices move to the cube first, so that its faces become those of the box.
    cube = ball.vertices / np.abs(ball.vertices).max(axis=1, keepdims=True) * half
    core = np.clip(cube, -(half - radius), half - radius)
    return an_object(TriangleMesh(core + radius * unit(cube - core), ball.faces))


def torus(rng: Generator) -> Surface:
    """A ring with relief."""
    large, small = 0.65, rng.uniform(0.15, 0.35)
    u = np.linspace(0, 2 * np.pi, round(2 * np.pi * large / FINE_STEP), endpoint=False)
    v = np.linspace(0, 2 * np.pi, round(2 * np.pi * small / FINE_STEP), endpoint=False)
    u, v = np.meshgrid(u, v, indexing="ij")
    reach = large + small * np.cos(v)
    points = np.stack([reach * np.cos(u), reach * np.sin(u), small * np.sin(v)], axis=-1)
    mesh = grid_mesh(points, closed_rows=True, closed_columns=True)
    return an_object(engraved(mesh, rng, log_uniform(rng, 0.08, 0.25)))


def ellipsoid(rng: Generator) -> Surface:
    """A stretched ball with relief."""
    ball = _ball(FINE_STEP)
    mesh = TriangleMesh(ball.vertices * rng.uniform(0.4, 0.9, 3), ball.faces)
    return an_object(engraved(mesh, rng, log_uniform(rng, 0.08, 0.25)))


def vase(rng: Generator) -> Surface:
    """A surface of revolution: closed below, open at the top, where its wall is thin or single."""
    t = np.linspace(0, 1, 70)
    radii = 0.35 + 0.15 * np.sin(np.pi * (2 * t + rng.random())) * rng.uniform(0.3, 1)
    radii += 0.02 * smooth_field(t[:, None], 0.15, rng)
    outside = np.column_stack([radii, 1.5 * t - 0.75])
    bottom = np.column_stack([np.linspace(0, radii[0], 12, endpoint=False), np.full(12, -0.75)])
    profile = np.concatenate([bottom, outside])
    if rng.random() < 0.5:
        inside = outside[10:] - [log_uniform(rng, 0.02, 0.08), 0]
        profile = np.concatenate([profile, inside[::-1]])
    mesh = revolved(profile, 96)
    if rng.random() < 0.5:
        mesh = engraved(mesh, rng, log_uniform(rng, 0.1, 0.25))
    return an_object(mesh)


def facets(rng: Generator) -> Surface:
    """A polyhedron of few random planes: sharp edges at all angles."""
    ball = _ball(STEP)
    normals = np.stack([random_direction(rng) for _ in range(rng.integers(8, 20))])
    normals = np.concatenate([normals, np.eye(3), -np.eye(3)])
    offsets = rng.uniform(0.5, 0.9, len(normals))
    reach = (offsets / np.maximum(ball.vertices @ normals.T, 1e-9)).min(axis=1)
    return an_object(TriangleMesh(ball.vertices * reach[:, None], ball.faces))


def helix_strip(rng: Generator) -> Surface:
    """A narrow open strip that is wound up: two borders everywhere near."""
    t = np.linspace(0, 1, 160)
    turns, wide = rng.uniform(3, 8), rng.uniform(0.1, 0.4)
    angle = turns * t
    radius = rng.uniform(0.3, 0.6) * (1 - rng.uniform(0, 0.5) * t)
    center = np.column_stack([radius * np.cos(angle), radius * np.sin(angle), 1.4 * t - 0.7])
    tilt = rng.uniform(0, np.pi)
    outwards = np.column_stack([np.cos(angle), np.sin(angle), np.zeros_like(t)])
    across = np.cos(tilt) * outwards + np.sin(tilt) * np.array([0, 0, 1.0])
    share = np.linspace(-0.5, 0.5, 9)
    return an_object(grid_mesh(center[:, None] + wide * share[:, None] * across[:, None]))


def _ball(step: float) -> TriangleMesh:
    """The unit sphere: six grids that were a cube's faces, about `step` between vertices."""
    count = round(np.pi / 2 / step) + 1
    across = np.tan(np.linspace(-np.pi / 4, np.pi / 4, count))  # vertices at equal angles
    u, v = np.meshgrid(across, across, indexing="ij")
    meshes = []
    for axis in np.concatenate([np.eye(3), -np.eye(3)]):
        first, second = frame_of(axis)
        meshes.append(grid_mesh(unit(axis + u[..., None] * first + v[..., None] * second)))
    return _welded(an_object(*meshes).mesh)


def _welded(mesh: TriangleMesh) -> TriangleMesh:
    """The mesh with vertices at the same place made one, so that normals know both sides."""
    keys = np.round(mesh.vertices, 9) + 0.0  # no negative zeros
    _, first, number = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    return TriangleMesh(mesh.vertices[first], number.reshape(-1)[mesh.faces])


OBJECTS: dict[str, Callable[[Generator], Surface]] = {
    "bumpy-sheet": bumpy_sheet,
    "saddle": saddle,
    "cloth": cloth,
    "plates": plates,
    "slab": slab,
    "rods": rods,
    "limbs": limbs,
    "boxes": boxes,
    "stairs": stairs,
    "profile-bar": profile_bar,
    "rounded-box": rounded_box,
    "torus": torus,
    "ellipsoid": ellipsoid,
    "vase": vase,
    "facets": facets,
    "helix-strip": helix_strip,
}
