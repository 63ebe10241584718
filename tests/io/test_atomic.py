"""Atomic writes: a new file at the end, or the old one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pdflow.errors import PdflowError
from pdflow.io import atomic_path


def test_new_file_replaces_the_old_one_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    path.write_text("old")
    path.chmod(0o640)
    with atomic_path(path) as temporary:
        temporary.write_text("new")
        assert temporary.parent == tmp_path
        assert temporary.suffix == ".txt"
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert path.stat().st_mode & 0o777 == 0o640
    assert list(tmp_path.iterdir()) == [path]


def test_new_file_has_default_permissions(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("")
    with atomic_path(tmp_path / "atomic") as temporary:
        temporary.write_text("")
    assert (tmp_path / "atomic").stat().st_mode == (tmp_path / "plain").stat().st_mode


def fail_half_way(path: Path, error: BaseException) -> None:
    with atomic_path(path) as temporary:
        temporary.write_text("half")
        raise error


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, SystemExit])
def test_any_error_leaves_the_old_file(tmp_path: Path, error: type[BaseException]) -> None:
    path = tmp_path / "out.txt"
    path.write_text("old")
    with pytest.raises(error):
        fail_half_way(path, error())
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_full_disk_gives_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(PdflowError, match=r"out.txt could not be written \(No space left"):
        fail_half_way(tmp_path / "out.txt", OSError(28, "No space left on device"))
    assert list(tmp_path.iterdir()) == []


def test_temporary_file_has_the_suffix_that_its_writer_needs(tmp_path: Path) -> None:
    with atomic_path(tmp_path / "out.data", suffix=".laz") as temporary:
        assert temporary.suffix == ".laz"
    assert [p.name for p in tmp_path.iterdir()] == ["out.data"]


def test_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    target, link = tmp_path / "deep" / "real.txt", tmp_path / "link.txt"
    target.write_text("old")
    link.symlink_to(target)
    with atomic_path(link) as temporary:
        temporary.write_text("new")
    assert link.is_symlink()
    assert target.read_text() == "new"


def test_what_a_killed_process_left_is_removed_a_day_later(tmp_path: Path) -> None:
    script = (
        "import os, signal, sys; from pathlib import Path; from pdflow.io import atomic_path\n"
        "with atomic_path(Path(sys.argv[1])) as temporary:\n"
        "    temporary.write_text('half')\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    for name in ("old.txt", "young.txt"):
        subprocess.run([sys.executable, "-c", script, str(tmp_path / name)], check=False)
    (old,) = tmp_path.glob(".old.*")
    (young,) = tmp_path.glob(".young.*")
    for path in (old, tmp_path / ".hidden.txt", tmp_path / "a.pdflow-b.txt"):
        path.write_text("")
        os.utime(path, (0, 0))
    write_in(tmp_path)
    assert not old.exists()
    assert {p.name for p in tmp_path.iterdir()} == {
        young.name,
        ".hidden.txt",
        "a.pdflow-b.txt",
        "out.txt",
    }


def write_in(folder: Path) -> None:
    with atomic_path(folder / "out.txt") as temporary:
        temporary.write_text("new")


def test_standard_output_is_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PdflowError, match="standard output"), atomic_path(Path("-")):
        pass
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("", "is a directory"),
        ("no/such/out.txt", "does not exist"),
        ("x" * 300, "cannot be written"),
        ("file/out.txt", "does not exist"),
        ("pipe", "is a device or a pipe"),
    ],
)
def test_targets_that_cannot_be_files(tmp_path: Path, name: str, expected: str) -> None:
    (tmp_path / "file").write_text("")
    os.mkfifo(tmp_path / "pipe")
    before = sorted(tmp_path.iterdir())
    with pytest.raises(PdflowError, match=expected), atomic_path(tmp_path / name):
        pass
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_write_protected_files_and_folders(tmp_path: Path) -> None:
    path = tmp_path / "raw.txt"
    path.write_text("raw")
    path.chmod(0o444)
    with pytest.raises(PdflowError, match="write-protected"), atomic_path(path):
        pass
    tmp_path.chmod(0o555)
    with pytest.raises(PdflowError, match="cannot be written"), atomic_path(tmp_path / "new"):
        pass
    tmp_path.chmod(0o755)
    assert path.read_text() == "raw"
