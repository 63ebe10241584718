"""Scanners that cast rays: line scanner, rotating head, depth camera.

What hides behind something else is not seen, the density falls with range and slant, and each
point knows its pixel.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np

from pdflow.errors import PdflowError
from pdflow.geometry.arrays import FloatArray, IntArray
from pdflow.geometry.frame import unit_sphere
from pdflow.scenes.fields import frame_of, log_uniform, random_direction, unit
from pdflow.scenes.scan import Scan, scan_of
from pdflow.scenes.surface import Surface

Generator = np.random.Generator

LINE_RATIOS = (3.0, 12.0)
"""Smallest and largest distance between lines, in distances along a line."""

STEEPEST = np.radians(80.0)
"""Nothing comes back from a surface that a ray meets at a larger angle to its normal."""

LOWEST = np.radians(-65.0)
"""Elevation below which a head on a tripod sees nothing."""

TOLERANCE = 0.05
"""How far the number of points may be from the wanted one, as a part of it."""

PROBES = 4000
"""Rays of a first coarse scan, which tells how many of them meet the surface."""


ROUNDS = 6
"""Scans made at most until the number of points is right."""

MOST_RAYS = 200
"""Rays per wanted point at most: a flat object seen from its side gives next to no points."""

POSITIONS = 8
"""Positions that a scanner tries at most until it sees the surface."""


class Rays(NamedTuple):
    """Origins, directions (R, 3), pixels (R, 2) and scan numbers (R,) of rays."""

    origins: FloatArray
    directions: FloatArray
    pixels: FloatArray
    scans: IntArray


Fire = Callable[[float, int], Rays]
"""(rays per scan, about; number of the scan) -> rays."""

RayScanner = TypeVar("RayScanner", bound=Callable[..., Scan])


class _NotSeenError(PdflowError):
    """The surface is not seen from where the scanner stands."""


def _from_where_it_sees(scanner: RayScanner) -> RayScanner:
    """A scanner that takes another position where it does not see the surface."""

    @functools.wraps(scanner)
    def placed(surface: Surface, count: int, rng: Generator, *options: Any, **named: Any) -> Scan:
        for _ in range(POSITIONS - 1):
            with contextlib.suppress(_NotSeenError):
                return scanner(surface, count, rng, *options, **named)
        return scanner(surface, count, rng, *options, **named)

    return cast(RayScanner, placed)


def viewpoints(surface: Surface, count: int, rng: Generator) -> FloatArray:
    """Places (count, 3) for a scanner: stations of the surface, or somewhere around it."""
    if len(surface.stations):
        chosen = rng.permutation(len(surface.stations))
        return np.asarray(surface.stations[chosen[np.arange(count) % len(chosen)]])
    sphere = unit_sphere(surface.mesh.vertices)
    first = random_direction(rng)
    directions = [first]
    while len(directions) < count:  # the next ones see some of what the first one does
        directions.append(unit(first + 0.8 * random_direction(rng)))
    distances = rng.uniform(1.8, 4, (count, 1))
    return np.asarray(sphere.center + sphere.scale * distances * np.array(directions))


@_from_where_it_sees
def line_scanner(surface: Surface, count: int, rng: Generator, ratio: float | None = None) -> Scan:
    """Fans of rays in parallel planes, which start from a straight track.

    ratio  distance between lines over that along a line, at the distance of the centre

    Objects are scanned in one to three passes; places in one, from above.
    """
    ratio = log_uniform(rng, *LINE_RATIOS) if ratio is None else ratio
    jitter = _Jitter(rng)
    sphere = unit_sphere(surface.mesh.vertices)
    passes = []
    down = np.array([0, 0, -1.0])
    for _ in range(1 if len(surface.stations) else rng.integers(1, 4)):
        way = unit(down + 0.15 * random_direction(rng)) if len(surface.stations) else None
        way = random_direction(rng) if way is None else way
        across, step = frame_of(way, rng.uniform(0, 2 * np.pi))
        passes.append((way, across, step, sphere.scale * rng.uniform(1.5, 4)))

    def fire(rays: float, number: int) -> Rays:
        way, across, step, distance = passes[number]
        offsets = surface.mesh.vertices - (sphere.center - distance * way)
        heights = offsets @ step
        angles = np.arctan2(offsets @ across, offsets @ way)
        wide, high = np.ptp(angles) * distance, float(np.ptp(heights))
        pitch = np.sqrt(max(wide, 1e-9) * max(high, 1e-9) / (rays * ratio))
        line, place = np.mgrid[
            : max(1, round(high / (ratio * pitch))), : max(2, round(wide / pitch))
        ]
        lines, places = line.shape
        # Lines are not exactly even, and a line does not begin where the last one did.
        shift, phase = (jitter(number, lines)[:, line] - 0.5) * [[[0.3]], [[1.0]]]
        angle = angles.min() + (place + phase) / places * np.ptp(angles)
        height = heights.min() + (line + 0.5 + shift) / lines * high
        angle, height = angle.reshape(-1, 1), height.reshape(-1, 1)
        return Rays(
            sphere.center - distance * way + height * step,
            np.cos(angle) * way + np.sin(angle) * across,
            np.column_stack([(place + phase).ravel(), line.ravel()]),
            np.full(angle.size, number),
        )

    return _scanned(surface, count, len(passes), fire, rng)


@_from_where_it_sees
def rotating_head(surface: Surface, count: int, rng: Generator) -> Scan:
    """A grid of angles about an axis, from one to three stations.

    Steps up and down are one to four times as large as those around. The axis is z in places,
    and anything around objects.
    """
    stations = viewpoints(surface, int(rng.integers(1, 4)), rng)
    ratio, jitter = rng.uniform(1, 4), _Jitter(rng)
    center = unit_sphere(surface.mesh.vertices).center
    axis = np.array([0, 0, 1.0]) if len(surface.stations) else random_direction(rng)

    def fire(rays: float, number: int) -> Rays:
        station = stations[number]
        ahead = center - station
        ahead = unit(ahead - (ahead @ axis) * axis)
        frame = np.stack([ahead, np.cross(axis, ahead), axis])
        x, y, z = (unit(surface.mesh.vertices - station) @ frame.T).T
        azimuth, elevation = np.arctan2(y, x), np.arcsin(np.clip(z, -1, 1))
        if len(surface.stations):  # all around, but for the tripod below
            azimuth, elevation = np.array([-np.pi, np.pi]), np.array([LOWEST, elevation.max()])
        wide, high = np.ptp(azimuth), np.ptp(elevation)
        pitch = np.sqrt(wide * high / (rays * ratio))
        line, place = np.mgrid[
            : max(1, round(high / (ratio * pitch))), : max(2, round(wide / pitch))
        ]
        phase = jitter(number, len(line))[0, line] - 0.5
        around = (azimuth.min() + (place + phase) / line.shape[1] * wide).ravel()
        up = (elevation.min() + (line + 0.5) / len(line) * high).ravel()
        flat = np.column_stack(
            [np.cos(up) * np.cos(around), np.cos(up) * np.sin(around), np.sin(up)]
        )
        return Rays(
            np.broadcast_to(station, flat.shape),
            flat @ frame,
            np.column_stack([(place + phase).ravel(), line.ravel()]),
            np.full(len(flat), number),
        )

    return _scanned(surface, count, len(stations), fire, rng)


@_from_where_it_sees
def depth_camera(surface: Surface, count: int, rng: Generator) -> Scan:
    """The pixels of a pinhole camera, from one or two places. In places it sees 60 degrees."""
    stations = viewpoints(surface, int(rng.integers(1, 3)), rng)
    sphere = unit_sphere(surface.mesh.vertices)
    if len(surface.stations):  # looks at the middle of things, not at the floor between
        target = sphere.center + 0.2 * sphere.scale * rng.uniform(-1, 1, 3) * [1, 1, 0.2]
    else:
        target = sphere.center
    turn = rng.uniform(0, 2 * np.pi)

    def fire(rays: float, number: int) -> Rays:
        way = unit(target - stations[number])
        distance = float(np.linalg.norm(target - stations[number]))
        half = np.tan(np.radians(30))
        if not len(surface.stations):
            half = np.tan(np.arcsin(min(0.95, sphere.scale / distance)))
        right, up = frame_of(way, turn)
        side = max(2, round(np.sqrt(rays)))
        row, column = np.mgrid[:side, :side]
        x, y = (half * ((2 * index + 1) / side - 1).reshape(-1, 1) for index in (column, row))
        return Rays(
            np.broadcast_to(stations[number], (side * side, 3)),
            unit(way + x * right + y * up),
            np.column_stack([column.ravel(), row.ravel()]).astype(np.float64),
            np.full(side * side, number),
        )

    return _scanned(surface, count, len(stations), fire, rng)


class _Jitter:
    """Irregularities of the lines of a scan: the same ones again where a grid is made finer."""

    def __init__(self, rng: Generator) -> None:
        self._seed = int(rng.integers(2**31))

    def __call__(self, scan: int, lines: int) -> FloatArray:
        """Two numbers from 0 to 1 for each line, (2, lines)."""
        return np.asarray(np.random.default_rng([self._seed, scan]).random((lines, 2)).T)


def _scanned(surface: Surface, count: int, scans: int, fire: Fire, rng: Generator) -> Scan:
    """The scan of all rays that meet the surface, with a grid so fine that `count` do.

    A few more than wanted are thinned at random: no scanner gets an answer to each pulse.
    """
    rays, scan = PROBES / scans, None
    for _ in range(ROUNDS):
        scan = _cast(surface, [fire(rays, number) for number in range(scans)])
        if count <= len(scan) <= (1 + TOLERANCE) * count:
            break
        # A little more than needed, because too many can be thinned and too few cannot.
        rays *= (1 + TOLERANCE / 2) * count / max(len(scan), 1)
        if rays * scans > max(MOST_RAYS * count, PROBES):
            break
    if scan is None or len(scan) < (1 - TOLERANCE) * count:
        found = 0 if scan is None else len(scan)
        raise _NotSeenError(
            f"A scanner met the surface in {found} places instead of {count}: take another seed."
        )
    return scan[np.sort(rng.permutation(len(scan))[:count])]


def _cast(surface: Surface, fired: list[Rays]) -> Scan:
    from pdflow.geometry.triangles import cast_rays

    rays = Rays(*(np.concatenate(column) for column in zip(*fired, strict=True)))
    distances, faces = cast_rays(rays.origins, rays.directions, surface.mesh)
    hit = np.flatnonzero(faces >= 0)
    points = rays.origins[hit] + distances[hit, None] * rays.directions[hit]
    scan = scan_of(
        surface, points, faces[hit], rays.origins[hit], rays.scans[hit], rays.pixels[hit]
    )
    return scan[np.flatnonzero(scan.cosines > np.cos(STEEPEST))]
