"""Places in metres, z up: a tile of terrain with what stands on it, and a corner of a room.

Leaves of trees are small triangles, scattered through the crown: rays meet them as they meet
walls, so that occlusion and scan lines come out by themselves, and no two neighbouring points
need share a surface. Wires are thin tubes.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np

from pdflow.geometry.arrays import FloatArray
from pdflow.mesh import TriangleMesh
from pdflow.scenes.fields import smooth_field, unit
from pdflow.scenes.surface import (
    BUILDING,
    GROUND,
    OBJECT,
    POLE,
    TREE,
    WIRE,
    Surface,
    box,
    joined,
    plane_grid,
    rectangle,
    sheet,
    tube,
    turned,
)

Generator = np.random.Generator
Part = tuple[TriangleMesh, int]

TILE = 40.0
"""Side of a tile of terrain in metres."""

LOT = 13.0
"""Distance between the middles of two lots; the streets between them are free."""

EYE = 1.8
"""Height of a scanner above the ground in metres."""


def _up(height: float) -> FloatArray:
    return np.array([0, 0, height])


class _Ground:
    """Heights of a terrain with hills, and what lies on its grid."""

    def __init__(self, rng: Generator) -> None:
        x, y = plane_grid(TILE / 2, TILE / 2, 0.5)
        places = np.stack([x, y], axis=-1)
        z = rng.uniform(0, 1.5) * smooth_field(places, rng.uniform(12, 30), rng)
        z += rng.uniform(0, 0.12) * smooth_field(places, rng.uniform(2, 5), rng)
        self.mesh = sheet(x, y, z)
        self._x, self._z = x[:, 0], z

    def at(self, x: float, y: float) -> float:
        """The height of the grid's point nearest to a place."""
        row, column = (int(np.abs(self._x - value).argmin()) for value in (x, y))
        return float(self._z[row, column])

    def without(self, hidden: list[tuple[float, float, float, float, float]]) -> TriangleMesh:
        """The ground outside of rectangles (x, y, width, depth, turn)."""
        middles = self.mesh.triangles.mean(axis=1)
        kept = np.ones(len(middles), bool)
        for x, y, wide, deep, turn in hidden:
            local = np.abs(turned(middles - [x, y, 0], -turn))
            kept &= (local[:, 0] > wide / 2) | (local[:, 1] > deep / 2)
        return TriangleMesh(self.mesh.vertices, self.mesh.faces[kept])


def terrain(rng: Generator) -> Surface:
    """Hilly ground, nine lots with buildings, trees or nothing, and a line of poles with wires.

    At least one lot has a building, and one has trees.
    """
    ground = _Ground(rng)
    parts: list[Part] = []
    hidden = []
    lots = [(x, y) for x in (-LOT, 0.0, LOT) for y in (-LOT, 0.0, LOT)]
    others = rng.choice(["building", "trees", "empty"], len(lots) - 2, p=[0.35, 0.45, 0.2])
    kinds = rng.permutation(["building", "trees", *others])
    for (lot_x, lot_y), kind in zip(lots, kinds, strict=True):
        x, y = lot_x + rng.uniform(-1, 1), lot_y + rng.uniform(-1, 1)
        if kind == "building":
            wide, deep, turn = rng.uniform(4, 8), rng.uniform(4, 8), rng.uniform(-0.2, 0.2)
            hidden.append((x, y, wide, deep, turn))
            parts += _building(rng, np.array([x, y, ground.at(x, y)]), wide, deep, turn)
        elif kind == "trees":
            for _ in range(rng.integers(2, 5)):
                foot_x, foot_y = x + rng.uniform(-4, 4), y + rng.uniform(-4, 4)
                parts += _tree(rng, np.array([foot_x, foot_y, ground.at(foot_x, foot_y)]))
    parts += _power_line(rng, ground)
    streets = [(-LOT / 2, y) for y in rng.uniform(-LOT, LOT, 3)]
    stations = np.array([(x, y, ground.at(x, y) + EYE) for x, y in streets])
    return joined([(ground.without(hidden), GROUND), *parts], stations)


def _building(
    rng: Generator, foot: FloatArray, wide: float, deep: float, turn: float
) -> list[Part]:
    """Walls and a flat or gabled roof, which stands over the walls a little."""
    high = rng.uniform(2.5, 7)
    walls = box(foot + _up(high / 2 - 0.5), (wide, deep, high + 1), turn, bottom=False)
    if rng.random() < 0.4:
        return [(walls, BUILDING)]
    rise = rng.uniform(0.2, 0.45) * deep
    x, y, over = wide / 2, deep / 2, 0.3
    low = -2 * over * rise / deep
    roof = np.array(
        [[-x - over, -y - over, low], [x + over, -y - over, low], [x + over, 0, rise],
         [-x - over, 0, rise], [x + over, y + over, low], [-x - over, y + over, low],
         [-x, -y, 0], [-x, y, 0], [-x, 0, rise], [x, -y, 0], [x, y, 0], [x, 0, rise]]
    )  # fmt: skip
    faces = [[0, 1, 2], [0, 2, 3], [3, 2, 4], [3, 4, 5], [6, 7, 8], [9, 10, 11]]
    roof = turned(roof, turn) + foot + _up(high)
    walls = TriangleMesh(walls.vertices, walls.faces[2:])  # the first two are the lid
    return [(walls, BUILDING), (TriangleMesh(roof, faces), BUILDING)]


def _tree(rng: Generator, foot: FloatArray) -> list[Part]:
    """A trunk, and a crown of scattered leaves."""
    high, wide = rng.uniform(4, 9), rng.uniform(1.2, 2.8)
    heights = np.linspace(-0.3, 0.6 * high, 6)
    trunk = tube(foot + heights[:, None] * _up(1), np.linspace(0.2, 0.08, 6), 8)
    count = int(rng.integers(1000, 3000))
    # More leaves outside than inside: the cube root fills a ball evenly, a higher one its rim.
    places = unit(rng.standard_normal((count, 3))) * rng.random((count, 1)) ** (1 / 4)
    middle = foot + _up(0.65 * high)
    places = middle + places * [wide, wide, 0.38 * high]
    size = rng.uniform(0.08, 0.18)
    leaves = places[:, None] + size * rng.standard_normal((count, 3, 3))
    crown = TriangleMesh(leaves, np.arange(3 * count).reshape(-1, 3))
    return [(trunk, TREE), (crown, TREE)]


def _power_line(rng: Generator, ground: _Ground) -> list[Part]:
    """Poles along a street, and two or three wires that sag between them."""
    parts: list[Part] = []
    x, high = LOT / 2, rng.uniform(6, 10)
    feet = [(x, y, ground.at(x, y)) for y in np.linspace(-16, 16, int(rng.integers(2, 4)))]
    tops = []
    for foot in np.array(feet):
        heights = np.linspace(-0.3, high, 4)[:, None] * _up(1)
        parts.append((tube(foot + heights, np.linspace(0.18, 0.12, 4), 10), POLE))
        tops.append(foot + _up(high - 0.3))
    t = np.linspace(0, 1, 24)[:, None]
    for side in np.linspace(-1.0, 1.0, int(rng.integers(2, 4))):
        sag = rng.uniform(0.3, 1.0)
        for a, b in pairwise(tops):
            path = (1 - t) * a + t * b + [side, 0, 0] - 4 * sag * t * (1 - t) * _up(1)
            parts.append((tube(path, np.full(len(t), rng.uniform(0.03, 0.08)), 6), WIRE))
    return parts


def room(rng: Generator) -> Surface:
    """The corner of a room: floor, two walls, cupboards along them, a table and a chair."""
    wide, deep, high = rng.uniform(3, 5), rng.uniform(3, 5), rng.uniform(2.3, 3)
    x, y, z = np.eye(3) * [wide, deep, high]
    corner = np.zeros(3)
    meshes = [rectangle(corner, x, y), rectangle(corner, y, z), rectangle(corner, x, z)]
    for place in np.arange(0.6, wide - 0.5, 1.1):
        if rng.random() < 0.6:
            tall, out = rng.uniform(0.5, 2.2), rng.uniform(0.3, 0.6)
            center = (place, out / 2 + 0.02, tall / 2)
            meshes.append(box(center, (rng.uniform(0.5, 1.0), out, tall), bottom=False))
    table = np.array([0.55 * wide, 0.6 * deep, 0.0])
    meshes += _table(rng, table, rng.uniform(0.8, 1.4), rng.uniform(0.6, 0.9), 0.75)
    seat = table + np.array([rng.uniform(-0.3, 0.3), -0.8, 0])
    meshes += _table(rng, seat, 0.42, 0.42, 0.45)
    meshes.append(box(seat + np.array([0, -0.2, 0.7]), (0.42, 0.03, 0.5)))
    places = [(0.9, 0.9), (0.9, 0.5), (0.5, 0.9), (0.2, 0.85)]
    stations = np.array([(a * wide, b * deep, rng.uniform(1, 1.8)) for a, b in places])
    return joined([(mesh, OBJECT) for mesh in meshes], stations)


def _table(
    rng: Generator, foot: FloatArray, wide: float, deep: float, high: float
) -> list[TriangleMesh]:
    """A thin top on four legs, turned at random."""
    turn = rng.uniform(0, np.pi / 2)
    thick, leg = rng.uniform(0.03, 0.08), rng.uniform(0.03, 0.06)
    meshes = [box(foot + _up(high), (wide, deep, thick), turn)]
    for a, b in ((-1, -1), (-1, 1), (1, -1), (1, 1)):
        offset = np.array([a * (wide / 2 - leg), b * (deep / 2 - leg), high / 2])
        meshes.append(box(foot + turned(offset, turn), (leg, leg, high), turn, bottom=False))
    return meshes


PLACES: dict[str, Callable[[Generator], Surface]] = {"terrain": terrain, "room": room}
