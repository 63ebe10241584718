"""Which files are one cloud: those that touch like the sheets of a map."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from pdflow.errors import PdflowError
from pdflow.geometry.arrays import FloatArray
from pdflow.io import find_format, open_reader

GAP = 0.02
"""Files touch if the gap between their boxes is at most this share of the smaller one's width."""

OVERLAP = 0.25
"""Boxes that share more of the smaller one's area are different views, or unrelated clouds."""


def touching_files(paths: Sequence[Path], format: str | None = None) -> list[list[int]]:
    """Numbers of the files, in groups that are one cloud each; most often of one file.

    Files belong together if, seen from above, their bounding boxes touch and hardly overlap. Scans
    of different objects around the same origin overlap, so each of them stays alone.
    """
    boxes = [_bounds(path, format) for path in paths]
    group = list(range(len(paths)))
    for a, box in enumerate(boxes):
        for b in range(a):
            other = boxes[b]
            if box is not None and other is not None and _touch(box, other):
                old, new = group[a], group[b]
                group = [new if number == old else number for number in group]
    return [[i for i, own in enumerate(group) if own == number] for number in sorted(set(group))]


def _bounds(path: Path, format: str | None) -> FloatArray | None:
    """(2, 2): lowest and highest x and y of a file; None if it cannot be read."""
    try:
        if find_format(path, format).module == "pdflow.io.las":
            from pdflow.io.las.header import read_header

            with path.open("rb") as file:
                header = read_header(file, path)
            return np.stack([header.low[:2], header.high[:2]])
        with open_reader(path, format) as reader:
            corners = [
                (points.min(axis=0), points.max(axis=0))
                for chunk in reader.chunks()
                for points in [chunk.points[np.isfinite(chunk.points).all(axis=1), :2]]
                if len(points)
            ]
    except (PdflowError, OSError):
        return None  # whoever reads it says what is wrong
    if not corners:
        return None
    low, high = np.array(corners).transpose(1, 0, 2)
    return np.stack([low.min(axis=0), high.max(axis=0)])


def _touch(a: FloatArray, b: FloatArray) -> bool:
    sizes = np.minimum(a[1] - a[0], b[1] - b[0])
    shared = np.minimum(a[1], b[1]) - np.maximum(a[0], b[0])
    if (shared < -GAP * max(sizes.max(), 0.0)).any():
        return False
    area = float(np.prod(sizes))
    return float(np.prod(np.maximum(shared, 0.0))) <= OVERLAP * area if area > 0 else False
