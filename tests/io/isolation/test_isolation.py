"""Decoding in a process that may die: the same clouds, and a sentence for every death."""

from __future__ import annotations

import signal
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from pdflow import PointCloud, TriangleMesh, open_reader, read, read_mesh, write, write_mesh
from pdflow.errors import LossWarning, MissingExtraError, PdflowError
from pdflow.io import Format, isolation, read_isolated, register_format, unregister_format
from pdflow.io.stream import MemoryReader

ROWS = np.arange(2500)
CLOUD = PointCloud(
    np.stack([ROWS * 0.5, ROWS % 7, -ROWS], axis=1) * 0.25,
    {
        "intensity": ROWS.astype(np.uint16),
        "colors": (ROWS[:, None] * [1, 2, 3] % 256).astype(np.uint8),
    },
    {"comments": ["by hand"]},
)


@pytest.fixture
def isolated(monkeypatch: pytest.MonkeyPatch) -> None:
    """The switch is on."""
    monkeypatch.setenv("PDFLOW_ISOLATE", "1")


@pytest.fixture
def strange(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Makes a format whose decoder runs some code; gives a file of it."""

    def make(code: str) -> Path:
        (tmp_path / "strange_decoder.py").write_text(f"def read(path):\n    {code}\n")
        monkeypatch.syspath_prepend(tmp_path)
        register_format(Format("strange", (".strange",), "strange_decoder", native=True))
        file = tmp_path / "scan.strange"
        file.write_text("content")
        return file

    yield make
    unregister_format("strange")


def same(a: PointCloud, b: PointCloud) -> None:
    np.testing.assert_array_equal(a.points, b.points)
    assert list(a.attributes) == list(b.attributes)
    for name, values in a.attributes.items():
        assert values.dtype == b.attributes[name].dtype
        np.testing.assert_array_equal(values, b.attributes[name])
    assert repr(sorted(a.metadata.items())) == repr(sorted(b.metadata.items()))


@pytest.mark.parametrize("suffix", ["laz", "e57"])
def test_the_same_cloud(suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip({"laz": "lazrs", "e57": "pye57"}[suffix])
    path = tmp_path / f"scan.{suffix}"
    write(path, CLOUD)
    expected = read(path)
    monkeypatch.setenv("PDFLOW_ISOLATE", "1")
    same(read(path), expected)


@pytest.mark.parametrize("suffix", ["las", "e57"])
def test_the_same_chunks_as_often_as_asked_for(isolated: None, tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"scan.{suffix}"
    write(path, CLOUD)
    with open_reader(path) as reader:
        assert not isinstance(reader, MemoryReader)
        assert reader.header.count == len(CLOUD)
        for _ in range(2):
            chunks = list(reader.chunks(1000))
            assert [len(chunk) for chunk in chunks] == [1000, 1000, 500]
            np.testing.assert_array_equal(PointCloud.concatenate(chunks).points, CLOUD.points)
            assert chunks[0].metadata == reader.header.metadata


def test_the_same_mesh(isolated: None, tmp_path: Path) -> None:
    pytest.importorskip("trimesh")
    mesh = TriangleMesh(np.eye(3), [[0, 1, 2], [2, 1, 0], [0, 2, 1]])
    write_mesh(tmp_path / "mesh.glb", mesh)
    back = read_mesh(tmp_path / "mesh.glb")
    np.testing.assert_array_equal(back.vertices, mesh.vertices)
    np.testing.assert_array_equal(back.faces, mesh.faces)


def test_any_format_on_request(tmp_path: Path) -> None:
    write(tmp_path / "scan.ply", CLOUD)
    same(read_isolated(tmp_path / "scan.ply"), read(tmp_path / "scan.ply"))


def test_the_sentence_of_a_decoder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "scan.laz").write_bytes(b"LASF" + bytes(500))
    with pytest.raises(PdflowError, match=r"scan\.laz") as alone:
        read_isolated(tmp_path / "scan.laz")
    monkeypatch.setenv("PDFLOW_ISOLATE", "0")
    with pytest.raises(PdflowError) as direct:
        read(tmp_path / "scan.laz")
    assert str(alone.value) == str(direct.value)


@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX: signals")
@pytest.mark.parametrize(
    ("code", "how"),
    [
        (f"import os; os.kill(os.getpid(), {int(signal.SIGSEGV)})", r"crashed \(signal 11\)"),
        ("import os; os._exit(0)", "crashed"),
        ("raise RuntimeError('not a sentence')", "crashed"),
        ("import os; os.write(1, b'lies\\n'); os._exit(1)", "crashed"),
    ],
)
def test_a_crash_is_one_sentence(
    strange: Callable[[str], Path], isolated: None, code: str, how: str
) -> None:
    with pytest.raises(PdflowError, match=rf"scan\.strange: its decoder {how}.*stopped"):
        read(strange(code))


def test_a_hang_is_one_sentence(
    strange: Callable[[str], Path], isolated: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(isolation, "PATIENCE", 3.0)
    with pytest.raises(PdflowError, match="its decoder gave no answer for 3 s"):
        read(strange("import time; time.sleep(1000)"))


def test_warnings_and_missing_extras_arrive(strange: Callable[[str], Path], isolated: None) -> None:
    path = strange(
        "import warnings, pdflow.errors as e; warnings.warn('text left out', e.LossWarning); "
        "raise e.MissingExtraError('Reading it needs an extra.')"
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with pytest.raises(MissingExtraError, match="needs an extra"):
            read(path)
    assert [str(w.message) for w in caught if w.category is LossWarning] == ["text left out"]


def test_nothing_is_left_behind(
    isolated: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "scan.las", CLOUD)
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    with open_reader(tmp_path / "scan.las") as reader:
        next(iter(reader.chunks(10)))
        assert list((tmp_path / "temporary").iterdir())
    (tmp_path / "scan.las").write_bytes(b"LASF")
    with pytest.raises(PdflowError):
        read(tmp_path / "scan.las")
    assert list((tmp_path / "temporary").iterdir()) == []
