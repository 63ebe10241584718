"""Many scans in little memory and one small file: what a network is trained on.

A point takes 20 bytes, and about 12 in a compressed file. Coordinates are rounded to 1/65535 of
the scan's extent, directions to about a degree, pixels to whole ones. The rounded scans are the
training data: a set read from a file is the set that was built, to the bit.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdflow.errors import PdflowError
from pdflow.geometry.arrays import FloatArray
from pdflow.geometry.frame import unit_sphere
from pdflow.io.atomic import atomic_path
from pdflow.parallel import run_in_threads
from pdflow.scenes.cases import training_scan
from pdflow.scenes.fields import unit
from pdflow.scenes.scan import Scan, depth_jumps

STEPS = 2**16 - 1
"""Steps that a coordinate or a range has within a scan."""

CHANNELS = {
    "points": 3,
    "rays": 3,
    "normals": 3,
    "ranges": 1,
    "pixels": 2,
    "jumps": 1,
    "scans": 1,
    "loose": 1,
}
"""Columns of unpacked points, and how many numbers each has."""


@dataclass(frozen=True)
class PackedScans:
    """Scans one after the other, each in the unit sphere of its own points.

    points   (T, 3) uint16, in steps of the scan
    rays     (T, 2) int8, and normals (T, 2) int8: directions on an octahedron
    ranges   (T,) uint16, in steps of the scan
    pixels   (T, 2) uint16; 0 in scans without a grid
    jumps    (T,) float16 `depth_jumps`
    scans    (T,) uint8 number of the station or pass
    loose    (T,) bool, points on no surface
    counts   (S,) points of each scan
    frames   (S, 6) float32: lowest coordinates and their step, lowest range and its step
    gridded  (S,) bool: whether points have pixels
    """

    points: NDArray[np.uint16]
    rays: NDArray[np.int8]
    normals: NDArray[np.int8]
    ranges: NDArray[np.uint16]
    pixels: NDArray[np.uint16]
    jumps: NDArray[np.float16]
    scans: NDArray[np.uint8]
    loose: NDArray[np.bool_]
    counts: NDArray[np.int64]
    frames: NDArray[np.float32]
    gridded: NDArray[np.bool_]

    @staticmethod
    def build(seeds: Sequence[int], points: tuple[int, int] = (2_500, 18_000)) -> PackedScans:
        """The training scans of seeds, made on all cores.

        points  fewest and most points of a scan
        """
        if not seeds:
            raise PdflowError("There are no seeds to make scans of: give at least one.")
        made: list[PackedScans | None] = [None] * len(seeds)

        def fill(start: int, stop: int) -> None:
            for number in range(start, stop):
                made[number] = packed(training_scan(seeds[number], points))

        run_in_threads(fill, len(seeds), grain=1)
        return _joined([scans for scans in made if scans is not None])

    def save(self, path: Path) -> None:
        """Write a compressed .npz file, atomically."""
        with atomic_path(path) as temporary, temporary.open("wb") as file:
            np.savez_compressed(file, **self._columns())

    @staticmethod
    def load(path: Path) -> PackedScans:
        """Read what `save` has written."""
        with np.load(path, allow_pickle=False) as file:
            missing = [f.name for f in fields(PackedScans) if f.name not in file]
            if missing:
                raise PdflowError(f"{path} has no column {missing[0]!r}: build the scans again.")
            return PackedScans(**{f.name: file[f.name] for f in fields(PackedScans)})

    @property
    def digest(self) -> str:
        """SHA-256 of all columns: what exactly was trained on."""
        digest = hashlib.sha256()
        for name, column in self._columns().items():
            digest.update(name.encode() + np.ascontiguousarray(column).tobytes())
        return digest.hexdigest()

    def unpacked(self) -> NDArray[np.float32]:
        """(T, C) float32: the columns of CHANNELS side by side; pixels are NaN without a grid."""
        frames = np.repeat(self.frames, self.counts, axis=0)
        gridded = np.repeat(self.gridded, self.counts)[:, None]
        columns = {
            "points": frames[:, :3] + frames[:, 3:4] * self.points,
            "rays": from_octahedron(self.rays),
            "normals": from_octahedron(self.normals),
            "ranges": frames[:, 4] + frames[:, 5] * self.ranges,
            "pixels": np.where(gridded, self.pixels, np.nan),
            "jumps": self.jumps,
            "scans": self.scans,
            "loose": self.loose,
        }
        parts = [columns[name].reshape(-1, width) for name, width in CHANNELS.items()]
        return np.concatenate(parts, axis=1, dtype=np.float32)

    def _columns(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(self)}


def packed(scan: Scan) -> PackedScans:
    """A set of one scan."""
    sphere = unit_sphere(scan.points)
    points, ranges = sphere.apply(scan.points), scan.ranges / sphere.scale
    low, nearest = points.min(axis=0), ranges.min()
    step = max(float((points - low).max()), 1e-9) / STEPS
    range_step = max(float(np.ptp(ranges)), 1e-9) / STEPS
    gridded = not np.isnan(scan.pixels).any()
    pixels = scan.pixels - scan.pixels.min(axis=0) if gridded else np.zeros((len(scan), 2))
    return PackedScans(
        np.round((points - low) / step).astype(np.uint16),
        to_octahedron(scan.rays),
        to_octahedron(scan.normals),
        np.round((ranges - nearest) / range_step).astype(np.uint16),
        np.round(np.minimum(pixels, STEPS)).astype(np.uint16),
        (depth_jumps(scan) / sphere.scale).astype(np.float16),
        scan.scans.astype(np.uint8),
        scan.loose,
        np.array([len(scan)]),
        np.array([[*low, step, nearest, range_step]], dtype=np.float32),
        np.array([gridded]),
    )


def _joined(sets: Sequence[PackedScans]) -> PackedScans:
    names = [f.name for f in fields(PackedScans)]
    return PackedScans(**{n: np.concatenate([getattr(part, n) for part in sets]) for n in names})


def to_octahedron(directions: FloatArray) -> NDArray[np.int8]:
    """Unit vectors (M, 3) as two numbers (M, 2) each: where they meet an unfolded octahedron.

    >>> to_octahedron(np.array([[0.0, 0.0, 1.0], [0.0, -1.0, 0.0]])).tolist()
    [[0, 0], [0, -127]]
    """
    x, y, z = (directions / np.abs(directions).sum(axis=1, keepdims=True)).T
    # The four faces below are folded outwards, over the edges of the upper ones.
    folded = (1 - np.abs(y)) * _sign(x), (1 - np.abs(x)) * _sign(y)
    places = np.where(z < 0, folded, (x, y)).T
    return np.asarray(np.round(127 * places), dtype=np.int8)


def from_octahedron(places: NDArray[np.int8]) -> FloatArray:
    """Unit vectors (M, 3) of what `to_octahedron` made of them.

    >>> from_octahedron(np.array([[0, -127]], np.int8)).tolist()
    [[0.0, -1.0, 0.0]]
    """
    x, y = places.T / 127
    z = 1 - np.abs(x) - np.abs(y)
    fold = np.maximum(-z, 0)
    return unit(np.column_stack([x - _sign(x) * fold, y - _sign(y) * fold, z]))


def _sign(values: FloatArray) -> FloatArray:
    """-1 below zero, 1 from zero on."""
    return np.where(values < 0, -1.0, 1.0)
