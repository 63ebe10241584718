"""What every format promises for a bad path: one sentence with the name of the file."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from pdflow import PointCloud, TriangleMesh, read, read_mesh, write, write_mesh
from pdflow.errors import PdflowError
from pdflow.io import FORMATS, Format

CLOUD = PointCloud(np.eye(3))
TRIANGLE = TriangleMesh(np.eye(3), [[0, 1, 2]])
each_format = pytest.mark.parametrize("fmt", FORMATS, ids=lambda fmt: fmt.name)


@each_format
def test_places_without_a_file(fmt: Format, tmp_path: Path) -> None:
    reader = read if fmt.points else read_mesh
    suffix = fmt.suffixes[0]
    folder = tmp_path / f"folder{suffix}"
    folder.mkdir()
    os.mkfifo(tmp_path / f"pipe{suffix}")
    for name, expected in (
        (f"folder{suffix}", "is a directory"),
        (f"missing{suffix}", "does not exist"),
        (f"no/such/folder{suffix}", "does not exist"),
        (f"pipe{suffix}", "is a device or a pipe"),
        (f"{'x' * 300}{suffix}", "cannot be read"),
    ):
        with pytest.raises(PdflowError, match=expected) as caught:
            reader(tmp_path / name)
        assert name in str(caught.value)
    with pytest.raises(PdflowError, match="is a directory"):
        write(folder, CLOUD) if fmt.points else write_mesh(folder, TRIANGLE)
    assert list(folder.iterdir()) == []


@each_format
@pytest.mark.skipif(os.geteuid() == 0, reason="root may read anything")
def test_files_that_may_not_be_read(fmt: Format, tmp_path: Path) -> None:
    path = tmp_path / f"locked{fmt.suffixes[0]}"
    path.write_bytes(b"anything")
    path.chmod(0)
    with pytest.raises(PdflowError, match="may not be read"):
        (read if fmt.points else read_mesh)(path)


@pytest.mark.parametrize("name", ["cloud.docx", "cloud", "cloud.ply.bak", ".ply"])
def test_unknown_suffixes(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(b"ply\n")
    for function in (read, read_mesh):
        with pytest.raises(PdflowError, match="its format is unknown") as caught:
            function(path)
        assert name in str(caught.value)
    with pytest.raises(PdflowError, match="its format is unknown"):
        write(tmp_path / "new.docx", CLOUD)
    assert [p.name for p in tmp_path.iterdir()] == [name]
