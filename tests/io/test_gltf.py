from pathlib import Path

import numpy as np
import pytest

from pdflow import TriangleMesh, read_mesh, write_mesh
from pdflow.errors import MissingExtraError, PdflowError


def test_mesh_comes_back(tmp_path: Path) -> None:
    mesh = TriangleMesh([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 2]], [[0, 1, 2], [0, 2, 3]])
    write_mesh(tmp_path / "m.glb", mesh)
    back = read_mesh(tmp_path / "m.glb")
    assert np.array_equal(back.triangles, mesh.triangles)


def test_damaged_file_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "bad.glb").write_bytes(b"glTF and then nothing")
    with pytest.raises(PdflowError, match=r"bad\.glb"):
        read_mesh(tmp_path / "bad.glb")


def test_missing_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "trimesh", None)
    (tmp_path / "m.glb").write_bytes(b"glTF")
    with pytest.raises(MissingExtraError, match=r"pdflow\[mesh\]"):
        read_mesh(tmp_path / "m.glb")
