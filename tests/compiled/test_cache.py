"""Compiled loops on disk: damage is noticed, and never an error."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from pdflow.compiled import compiled

needs_owners = pytest.mark.skipif(
    not hasattr(os, "geteuid"), reason="needs POSIX: owners and modes of files"
)
SOURCE = """
from pdflow.compiled import compiled

@compiled
def add(a, b):
    return a + b
"""


@pytest.fixture
def load(tmp_path: Path) -> Callable[[], ModuleType]:
    """Import a module with one compiled loop, as a new process would."""
    path = tmp_path / "loops.py"
    path.write_text(SOURCE)

    def load() -> ModuleType:
        spec = importlib.util.spec_from_file_location("loops", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return load


def cached_files(folder: Path, suffix: str = "nb[ci]") -> list[Path]:
    return sorted((folder / "__pycache__").glob(f"*.{suffix}"))


def hits(module: ModuleType) -> int:
    return sum(module.add.stats.cache_hits.values())


def test_the_machine_code_is_kept_for_the_next_process(load, tmp_path) -> None:
    assert load().add(1, 2) == 3
    assert len(cached_files(tmp_path)) == 2
    again = load()
    assert again.add(1, 2) == 3
    assert hits(again) == 1


def empty(content: bytes) -> bytes:
    return b""


def cut(content: bytes) -> bytes:
    return content[: len(content) // 2]


def flip(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 255]) + content[middle + 1 :]


def other(content: bytes) -> bytes:
    return b"something else"


@pytest.mark.parametrize("suffix", ["nbi", "nbc"])
@pytest.mark.parametrize("damage", [empty, cut, flip, other])
def test_a_damaged_file_is_compiled_again(load, tmp_path, damage, suffix: str) -> None:
    load().add(1, 2)
    (path,) = cached_files(tmp_path, suffix)
    path.write_bytes(damage(path.read_bytes()))
    mended = load()
    assert mended.add(1, 2) == 3
    assert hits(mended) == 0
    again = load()
    assert again.add(1, 2) == 3
    assert hits(again) == 1


def test_the_file_of_another_signature_is_not_run(load, tmp_path) -> None:
    module = load()
    module.add(1, 2)
    module.add(1.5, 2.5)
    whole, real = cached_files(tmp_path, "nbc")
    shutil.copyfile(whole, real)
    again = load()
    assert again.add(1.5, 2.5) == 4.0
    assert hits(again) == 0


def test_the_file_of_an_older_source_is_not_run(load, tmp_path) -> None:
    load().add(1, 2)
    (data,) = cached_files(tmp_path, "nbc")
    old = data.read_bytes()
    (tmp_path / "loops.py").write_text(SOURCE.replace("a + b", "a - b"))
    load().add(1, 2)
    data.write_bytes(old)
    assert load().add(1, 2) == -1


def test_classes_that_moved_are_compiled_again(load, tmp_path, monkeypatch) -> None:
    from pdflow.compiled import cache

    load().add(1, 2)

    def moved(content: bytes) -> None:
        raise ModuleNotFoundError("No module named 'numba.core.types.moved'")

    with monkeypatch.context() as patch:
        patch.setattr(cache.pickle, "loads", moved)
        assert load().add(1, 2) == 3


@needs_owners
@pytest.mark.parametrize("suffix", ["nbi", "nbc"])
@pytest.mark.parametrize("mode", [0o664, 0o646, 0o666])
def test_a_file_that_others_may_write_to_is_not_read(load, tmp_path, suffix: str, mode) -> None:
    load().add(1, 2)
    (path,) = cached_files(tmp_path, suffix)
    path.chmod(mode)
    again = load()
    assert again.add(1, 2) == 3
    assert hits(again) == 0
    assert path.stat().st_mode & 0o777 == 0o644


@needs_owners
@pytest.mark.parametrize("suffix", ["nbi", "nbc"])
def test_a_file_of_another_user_is_not_read(load, tmp_path, monkeypatch, suffix: str) -> None:
    load().add(1, 2)
    (path,) = cached_files(tmp_path, suffix)
    owner = 12345
    if os.geteuid() == 0:
        os.chown(path, owner, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: owner)  # then the files are another user's
    again = load()
    assert again.add(1, 2) == 3
    assert hits(again) == 0


@needs_owners
def test_a_loose_umask_does_not_disable_the_cache(load, tmp_path) -> None:
    before = os.umask(0)
    try:
        load().add(1, 2)
        again = load()
        again.add(1, 2)
    finally:
        os.umask(before)
    assert hits(again) == 1


def test_a_full_disk_is_no_error(load, tmp_path, monkeypatch) -> None:
    from pdflow.compiled import cache

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(cache._CheckedFiles, "_open_for_write", full)
    assert load().add(1, 2) == 3
    assert not cached_files(tmp_path)


def test_works_where_nothing_can_be_cached() -> None:
    # numba refuses to cache a function without a file just as it does without a folder.
    scope: dict[str, Callable[[int], int]] = {}
    exec("def add_one(number): return number + 1", scope)
    assert compiled(scope["add_one"])(1) == 2


def test_a_compressed_pcd_needs_no_folder_for_the_cache(tmp_path) -> None:
    script = (
        "from numba.core.caching import _CacheLocator\n"
        "def refuse(self): raise PermissionError(13, 'Permission denied')\n"
        "_CacheLocator.ensure_cache_path = refuse\n"
        "from pdflow.io.pcd.lzf import compress, decompress\n"
        "assert decompress(compress(b'cloud ' * 99), 594) == b'cloud ' * 99\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
