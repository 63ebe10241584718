"""PLY files as meshes: faces, polygons, other software."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from pdflow import TriangleMesh, read, read_mesh
from pdflow.errors import PdflowError
from pdflow.io import write_mesh

PlyFile = Callable[..., Path]

HEAD = "ply\nformat {} 1.0\n"
XYZ = "property float x\nproperty float y\nproperty float z\n"
VERTEX = f"element vertex 2\n{XYZ}"
ASCII = HEAD.format("ascii")
FACES = f"{VERTEX}element face 2\nproperty list char int vertex_indices\nend_header\n"


def test_mesh_round_trip(tmp_path: Path) -> None:
    mesh = TriangleMesh([[0, 0, 0], [1, 0, 0], [0, 1, 0.1]], [[0, 1, 2], [2, 1, 0]])
    write_mesh(tmp_path / "a.ply", mesh)
    back = read_mesh(tmp_path / "a.ply")
    np.testing.assert_array_equal(back.vertices, mesh.vertices)
    np.testing.assert_array_equal(back.faces, mesh.faces)
    assert len(read(tmp_path / "a.ply")) == 3


@pytest.mark.parametrize("name", ["vertex_indices", "vertex_index"])
def test_polygons_become_fans(name: str, ply_file: PlyFile) -> None:
    text = ASCII + (
        f"element vertex 5\n{XYZ}element face 4\nproperty list uchar int {name}\nend_header\n"
        + "0 0 0\n" * 5
        + "3 0 1 2\n5 0 1 2 3 4\n2 0 1\n4 4 3 2 1\n"
    )
    mesh = read_mesh(ply_file(text))
    assert mesh.faces.tolist() == [
        *([0, 1, 2], [0, 1, 2], [0, 2, 3], [0, 3, 4], [4, 3, 2], [4, 2, 1])
    ]


def test_mesh_without_faces_or_with_wrong_ones(ply_file: PlyFile) -> None:
    text = f"{ASCII}{VERTEX}end_header\n0 0 0\n1 1 1\n"
    with pytest.raises(PdflowError, match=r"a\.ply holds no faces"):
        read_mesh(ply_file(text))
    for body, message in (("0\n0\n", "holds no faces"), ("3 0 1 7\n0\n", "vertex 7")):
        text = f"{ASCII}{FACES}0 0 0\n1 1 1\n{body}"
        with pytest.raises(PdflowError, match=message):
            read_mesh(ply_file(text))


def test_other_software_reads_our_meshes(tmp_path: Path) -> None:
    igl = pytest.importorskip("igl")
    rng = np.random.default_rng(0)
    mesh = TriangleMesh(rng.normal(size=(50, 3)), rng.integers(0, 50, (80, 3)))
    write_mesh(tmp_path / "a.ply", mesh)
    vertices, faces = igl.read_triangle_mesh(str(tmp_path / "a.ply"))
    np.testing.assert_array_equal(vertices, mesh.vertices)
    np.testing.assert_array_equal(faces, mesh.faces)
