from __future__ import annotations

import base64
import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest

from pdflow import TriangleMesh, read_mesh, write_mesh
from pdflow.errors import LossWarning, MissingExtraError, PdflowError

pytest.importorskip("trimesh", reason="needs the extra mesh")

MESH = TriangleMesh([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 2]], [[0, 1, 2], [0, 2, 3]])


@pytest.mark.parametrize("name", ["m.glb", "m.gltf", "M.GLTF", "m.data"])
def test_mesh_comes_back(tmp_path: Path, name: str) -> None:
    write_mesh(tmp_path / name, MESH, format="glb")
    back = read_mesh(tmp_path / name, format="glb")
    assert np.array_equal(back.triangles, MESH.triangles)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_gltf_is_text_and_glb_is_not(tmp_path: Path) -> None:
    for name in ("m.gltf", "m.glb"):
        write_mesh(tmp_path / name, MESH)
    assert json.loads((tmp_path / "m.gltf").read_text())["asset"]["version"] == "2.0"
    assert (tmp_path / "m.glb").read_bytes()[:4] == b"glTF"


def test_losses_of_single_precision_are_named(tmp_path: Path) -> None:
    far = TriangleMesh(MESH.vertices + 5e6 + 0.1, MESH.faces)
    with pytest.warns(LossWarning, match=r"glTF cannot hold coordinates beyond single precision"):
        write_mesh(tmp_path / "m.glb", far)
    with pytest.raises(PdflowError, match="exceeds the float32"):
        write_mesh(tmp_path / "huge.glb", TriangleMesh(MESH.vertices * 1e300, MESH.faces))
    assert not (tmp_path / "huge.glb").exists()


def test_faces_beyond_the_vertices_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.glb"
    write_mesh(path, MESH)
    data = path.read_bytes()
    corners = MESH.faces.astype("<u4").tobytes()
    assert corners in data
    path.write_bytes(data.replace(corners, corners[:-4] + b"\xff\0\0\0"))
    with pytest.raises(PdflowError, match=r"m\.glb: A face points at vertex 255"):
        read_mesh(path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs POSIX")
def test_a_buffer_that_is_a_pipe_is_refused(tmp_path: Path) -> None:
    write_mesh(tmp_path / "m.gltf", MESH)
    scene = json.loads((tmp_path / "m.gltf").read_text())
    uri = scene["buffers"][0]["uri"]
    (tmp_path / "file.bin").write_bytes(base64.b64decode(uri.partition(",")[2]))
    os.mkfifo(tmp_path / "pipe.bin")
    for name in ("file.bin", "pipe.bin"):
        scene["buffers"][0]["uri"] = name
        (tmp_path / f"{name}.gltf").write_text(json.dumps(scene))
    scene_from_file = read_mesh(tmp_path / "file.bin.gltf")
    assert np.array_equal(scene_from_file.triangles, MESH.triangles)
    with pytest.raises(PdflowError, match=r"pipe\.bin is not a file"):
        read_mesh(tmp_path / "pipe.bin.gltf")


def test_damaged_file_gives_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "bad.glb").write_bytes(b"glTF and then nothing")
    with pytest.raises(PdflowError, match=r"bad\.glb"):
        read_mesh(tmp_path / "bad.glb")


def test_missing_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "trimesh", None)
    (tmp_path / "m.glb").write_bytes(b"glTF")
    with pytest.raises(MissingExtraError, match=r"\[mesh\]"):
        read_mesh(tmp_path / "m.glb")
