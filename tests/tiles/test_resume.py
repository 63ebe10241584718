"""A run that was killed, or had no room, goes on where it stopped, and ends with the same bytes."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from pdflow.cloud import PointCloud
from pdflow.errors import PdflowError
from pdflow.io import write
from pdflow.tiles import stages
from pdflow.tiles.run import TileRun
from pdflow.tiles.state import locked, state_folder
from pdflow.tiles.store import Store

MakeRun = Callable[..., TileRun]


@pytest.fixture
def noisy(tmp_path: Path, strip: PointCloud) -> Path:
    write(tmp_path / "noisy.las", strip[:4000])
    return tmp_path / "noisy.las"


class Stop(BaseException):
    """What no code catches, like a kill."""


@pytest.fixture
def stop_after(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], list[tuple[str, int]]]:
    """Call with a number: so many more tiles are written; the list has all that are."""
    written: list[tuple[str, int]] = []
    original = Store.write

    def start(count: int) -> list[tuple[str, int]]:
        limit = len(written) + count

        def write_some(self: Store, stage: str, tile: int, values: np.ndarray) -> None:
            if len(written) >= limit:
                raise Stop
            original(self, stage, tile, values)
            written.append((stage, tile))

        monkeypatch.setattr(Store, "write", write_some)
        return written

    return start


def test_tiles_that_are_done_are_not_done_again(
    tmp_path: Path,
    noisy: Path,
    tile_run: MakeRun,
    stop_after: Callable[[int], list[tuple[str, int]]],
) -> None:
    out = tmp_path / "clean.las"
    tile_run([noisy], [tmp_path / "alone.las"], iterations=1)()
    run = tile_run([noisy], [out], iterations=1)
    for count in (1, 2, 3):
        written = stop_after(count)
        with pytest.raises(Stop):
            run()
        stages.open_tiles.cache_clear()
        assert not out.exists()
        assert state_folder([out]).is_dir()
    written = stop_after(10**6)
    run()
    assert len(written) == len(set(written))
    assert out.read_bytes() == (tmp_path / "alone.las").read_bytes()
    assert not state_folder([out]).exists()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_ten_kills_change_no_byte(tmp_path: Path, noisy: Path, tile_run: MakeRun) -> None:
    out, rng = tmp_path / "clean.las", np.random.default_rng(0)
    start = time.monotonic()
    tile_run([noisy], [tmp_path / "alone.las"], iterations=1)()
    seconds = time.monotonic() - start
    run = tile_run([noisy], [out], iterations=1)
    for _ in range(10):
        child = os.fork()
        if child == 0:
            run()
            os._exit(0)
        time.sleep(rng.uniform(0.02, 0.3) * seconds)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        if out.exists():
            assert out.read_bytes() == (tmp_path / "alone.las").read_bytes()
            out.unlink()
    run()
    assert out.read_bytes() == (tmp_path / "alone.las").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "alone.las", "clean.las", "noisy.las",
    ]  # fmt: skip


def test_other_options_or_inputs_are_refused(
    tmp_path: Path, noisy: Path, tile_run: MakeRun, stop_after: Callable[[int], object]
) -> None:
    out = tmp_path / "clean.las"
    stop_after(1)
    with pytest.raises(Stop):
        tile_run([noisy], [out], iterations=1)()
    with pytest.raises(PdflowError, match="unfinished run with other options"):
        tile_run([noisy], [out], iterations=2)()
    write(noisy, PointCloud(np.random.default_rng(1).random((4000, 3))))
    with pytest.raises(PdflowError, match="unfinished run with other inputs"):
        tile_run([noisy], [out], iterations=1)()


def test_what_a_kill_during_removal_left_is_not_used(
    tmp_path: Path, noisy: Path, tile_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "clean.las"
    with monkeypatch.context() as patch:
        patch.setattr("pdflow.tiles.state.shutil.rmtree", lambda *_, **__: None)
        tile_run([noisy], [out], iterations=1)()
    assert (state_folder([out]) / "index.npz").exists()
    moved = PointCloud(np.random.default_rng(1).random((3000, 3)) * [300, 10, 0.1])
    write(tmp_path / "other.las", moved)
    tile_run([tmp_path / "other.las"], [tmp_path / "alone.las"], iterations=1)()
    tile_run([tmp_path / "other.las"], [out], iterations=1)()
    assert out.read_bytes() == (tmp_path / "alone.las").read_bytes()


@pytest.mark.skipif(os.name == "nt", reason="no locks on Windows")
def test_two_runs_do_not_share_a_folder(tmp_path: Path, noisy: Path, tile_run: MakeRun) -> None:
    out = tmp_path / "clean.las"
    run = tile_run([noisy], [out], iterations=1)
    with (
        locked(state_folder([out])),
        pytest.raises(PdflowError, match="in use"),
    ):
        run()
