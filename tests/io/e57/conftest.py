"""E57 files made by the library alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pye57 import libe57
from pyquaternion import Quaternion

WKT = 'PROJCS["UTM zone 32N",GEOGCS["ETRS89"],UNIT["metre",1],AUTHORITY["EPSG","25832"]]'
Fields = dict[str, tuple[Any, np.ndarray]]
"""Point field -> its kind ("single", "double", limits of an integer, or a function) and values."""

TURNS = [Quaternion(axis=[1, 2, 3], degrees=40), Quaternion(axis=[0, -1, 1], degrees=200)]
SHIFTS = [np.array([4e5, 5.5e6, 120.0]), np.array([4e5 - 3.0, 5.5e6 + 0.5, 2.0])]


@dataclass
class TwoScans:
    """A file, the points of its scans in their own frames, and their poses."""

    path: Path
    local: list[np.ndarray]
    turns: list[Quaternion]
    shifts: list[np.ndarray]
    poses: list[dict[str, Any]]


def new_node(file: Any, kind: Any) -> Any:
    """The prototype of a point field."""
    if kind in ("single", "double"):
        return libe57.FloatNode(file, 0.0, getattr(libe57, f"E57_{kind.upper()}"))
    return kind(file) if callable(kind) else libe57.IntegerNode(file, kind[0], *kind)


def write_file(path: Path, scans: list[tuple[dict[str, Any], Fields]], crs: str = "") -> None:
    """A file by the library alone: for each scan its header (nested dicts) and its point fields."""
    file = libe57.ImageFile(str(path), "w")
    file.extensionsAdd("", libe57.E57_V1_0_URI)
    file.extensionsAdd("nor", "http://www.libe57.org/E57_NOR_surface_normals.txt")
    file.extensionsAdd("ext", "http://example.com/ext")
    root = file.root()
    fill(file, root, {"guid": "{file}", "coordinateMetadata": crs, "ext:owner": "someone"})
    fill(file, root, {"creationDateTime": {"dateTimeValue": 1.25, "isAtomicClockReferenced": 1}})
    data3d = libe57.VectorNode(file, True)
    root.set("data3D", data3d)
    images = libe57.VectorNode(file, True)
    root.set("images2D", images)
    picture = libe57.StructureNode(file)
    images.append(picture)
    fill(file, picture, {"guid": "{picture}", "name": "north"})
    blob = libe57.BlobNode(file, 4)
    picture.set("jpegImage", blob)
    blob.write(np.frombuffer(b"\1\2\3\4", np.uint8).copy(), 0, 4)
    for header, fields in scans:
        scan = libe57.StructureNode(file)
        data3d.append(scan)
        fill(file, scan, header)
        prototype, buffers = libe57.StructureNode(file), libe57.VectorSourceDestBuffer()
        count = len(next(iter(fields.values()))[1])
        for name, (kind, values) in fields.items():
            prototype.set(name, new_node(file, kind))
            buffers.append(libe57.SourceDestBuffer(file, name, values, count, True, True))
        codecs = libe57.VectorNode(file, True)
        points = libe57.CompressedVectorNode(file, prototype, codecs)
        scan.set("points", points)
        writer = points.writer(buffers)
        writer.write(count)
        writer.close()
    file.close()


def fill(file: Any, node: Any, values: dict[str, Any]) -> None:
    kinds = {str: libe57.StringNode, int: libe57.IntegerNode, float: libe57.FloatNode}
    for name, value in values.items():
        if isinstance(value, dict):
            below = libe57.StructureNode(file)
            node.set(name, below)
            fill(file, below, value)
        else:
            node.set(name, kinds[type(value)](file, value))


def pose(rotation: Quaternion, translation: Any) -> dict[str, Any]:
    return {
        "rotation": dict(zip("wxyz", map(float, rotation.elements), strict=True)),
        "translation": dict(zip("xyz", map(float, translation), strict=True)),
    }


def positions(local: np.ndarray) -> Fields:
    names = ("cartesianX", "cartesianY", "cartesianZ")
    return {name: ("double", local[:, i].copy()) for i, name in enumerate(names)}


@pytest.fixture
def two_scans(tmp_path: Path) -> TwoScans:
    """A file of two scans with poses, headers and different fields."""
    rng = np.random.default_rng(0)
    local = [rng.normal(size=(50, 3)) * 10, rng.normal(size=(30, 3))]
    poses = [pose(turn, shift) for turn, shift in zip(TURNS, SHIFTS, strict=True)]
    headers = [
        {
            "guid": f"{{scan {i}}}",
            "name": f"station {i}",
            "description": "über dem Tor",
            "sensorVendor": "maker",
            "temperature": 21.5,
            "pose": poses[i],
            "acquisitionStart": {"dateTimeValue": 1e9 + i, "isAtomicClockReferenced": 0},
            "intensityLimits": {"intensityMinimum": 0, "intensityMaximum": 4095},
            "ext:flag": i,
        }
        for i in range(2)
    ]
    normals = np.eye(3)[rng.integers(0, 3, 50)].astype(np.float32)
    first: Fields = {
        **positions(local[0]),
        "intensity": ((0, 4095), rng.integers(0, 4096, 50).astype(np.uint16)),
        "rowIndex": ((0, 100_000), np.arange(50, dtype=np.longlong)),
        "timeStamp": ("double", rng.normal(size=50)),
        "ext:quality": ("single", rng.normal(size=50).astype(np.float32)),
        **{
            f"color{c}": ((0, 255), rng.integers(0, 256, 50).astype(np.uint8))
            for c in ("Red", "Green", "Blue")
        },
        **{f"nor:normal{a}": ("single", normals[:, i].copy()) for i, a in enumerate("XYZ")},
    }
    second: Fields = {
        **positions(local[1]),
        "intensity": ((0, 4095), rng.integers(0, 4096, 30).astype(np.uint16)),
    }
    path = tmp_path / "two.e57"
    write_file(path, [(headers[0], first), (headers[1], second)], WKT)
    return TwoScans(path, local, TURNS, SHIFTS, poses)


@pytest.fixture
def make_file() -> Callable[..., None]:
    """Makes a file from headers and point fields."""
    return write_file


@pytest.fixture
def unit_points() -> Fields:
    """Three points as point fields."""
    return positions(np.eye(3))
