"""A scene as one compressed block of bytes, which the page unpacks.

Layout before compression: length of the manifest (uint32, little endian), the manifest as JSON,
the arrays. Positions are 16-bit steps in a cube around all clouds. An array is stored as
differences between neighbouring rows, zigzag coded, first all low bytes, then all high bytes: the
order along a Morton curve makes differences small. `page/data.js` is the reader.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdflow.io.las.classes import CLASS_NAMES
from pdflow.viewer.channels import CLASSES, RGB, Channel
from pdflow.viewer.colors import class_colors, ramp
from pdflow.viewer.scene import Scene

STEPS = 65535
"""Steps along an edge of the cube."""

_LEVEL = 6


def pack(scene: Scene) -> bytes:
    """The scene as gzip."""
    low = np.min([cloud.points.min(0) for cloud in scene.clouds], axis=0)
    high = np.max([cloud.points.max(0) for cloud in scene.clouds], axis=0)
    center, side = low / 2 + high / 2, float((high - low).max()) or 1.0
    places = [quantise(cloud.points, center, side) for cloud in scene.clouds]
    area = min(map(_covered, places))  # noise covers more, but must not make points larger
    arrays = _Arrays()
    clouds = []
    for cloud, positions in zip(scene.clouds, places, strict=True):
        clouds.append(
            {
                "name": cloud.name,
                "count": len(cloud.points),
                "total": cloud.total,
                "spacing": math.sqrt(area / len(positions)),
                "focus": _focus(positions),
                "positions": arrays.add(positions),
                "channels": [_describe(channel, arrays) for channel in cloud.channels],
            }
        )
    manifest = {
        "unit": scene.unit,
        "center": center.tolist(),
        "side": side,
        "ramp": ramp().ravel().tolist(),
        "classColors": class_colors().ravel().tolist(),
        "clouds": clouds,
    }
    head = json.dumps(manifest, allow_nan=False).encode()
    block = len(head).to_bytes(4, "little") + head + b"".join(arrays.blocks)
    return gzip.compress(block, _LEVEL, mtime=0)


def quantise(
    points: NDArray[np.float64], center: NDArray[np.float64], side: float
) -> NDArray[np.uint16]:
    """(M, 3): points as steps in the cube; off by at most half a step along each axis."""
    steps = np.rint(((points - center) / side + 0.5) * STEPS)
    return np.asarray(np.clip(steps, 0, STEPS), np.uint16)


def encode(values: NDArray[Any]) -> bytes:
    """Values (M,) or (M, W) of uint8 or uint16, as the page reads them.

    >>> encode(np.array([3, 4, 2], np.uint8)).hex()
    '060203'
    """
    bits = 8 * values.dtype.itemsize
    columns = values.reshape(len(values), -1).T
    steps = np.diff(columns, axis=1, prepend=columns.dtype.type(0))
    signed = steps.view(f"i{values.dtype.itemsize}")
    zigzag = ((signed << 1) ^ (signed >> (bits - 1))).view(values.dtype)
    planes = [(zigzag >> shift).astype(np.uint8) for shift in range(0, bits, 8)]
    return b"".join(plane.tobytes() for plane in planes)


class _Arrays:
    """Arrays one after the other; an array that two clouds share is stored once."""

    def __init__(self) -> None:
        self.blocks: list[bytes] = []
        self._offset = 0
        self._known: dict[bytes, dict[str, int]] = {}

    def add(self, values: NDArray[Any]) -> dict[str, int]:
        """Store values and say where: offset in bytes, columns, bits of a number."""
        block = encode(values)
        entry = {
            "offset": self._offset,
            "width": 1 if values.ndim == 1 else values.shape[1],
            "bits": 8 * values.dtype.itemsize,
        }
        key = hashlib.sha256(block).digest() + bytes([entry["width"], entry["bits"]])
        if key not in self._known:
            self._known[key] = entry
            self.blocks.append(block)
            self._offset += len(block)
        return self._known[key]


def _describe(channel: Channel, arrays: _Arrays) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": channel.name, "kind": channel.kind}
    if channel.kind != RGB:
        entry |= {"unit": channel.unit, "low": channel.low, "high": channel.high}
        entry["shown"] = channel.shown
    if channel.kind == CLASSES:
        codes = [int(channel.low) + int(code) - 1 for code in np.unique(channel.values)]
        entry["classes"] = {code: CLASS_NAMES.get(code, "") for code in codes}
    return entry | {"data": arrays.add(channel.values)}


def _covered(positions: NDArray[np.uint16]) -> float:
    """Rough area of the surface, as a share of a face of the cube.

    The points cover cells of a grid, which is coarse enough that a cell holds several of them.
    """
    edge = int(np.clip(np.sqrt(len(positions)) / 4, 1, 256))
    cells = positions.astype(np.int64) * edge // (STEPS + 1)
    return float(np.count_nonzero(np.bincount(cells @ np.array([1, edge, edge**2]))) / edge**2)


def _focus(positions: NDArray[np.uint16]) -> list[float]:
    """What the camera looks at: centre, radius, half extents, as shares of the cube's side.

    The outermost hundredth on each side may fall outside, so that outliers do not shrink the rest.
    """
    low, high = np.quantile(positions / STEPS, [0.01, 0.99], axis=0)
    middle, half = (low + high) / 2 - 0.5, (high - low) / 2
    return [*middle.tolist(), max(float(np.linalg.norm(half)), 1e-3), *half.tolist()]
