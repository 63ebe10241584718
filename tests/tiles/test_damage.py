"""A disk that is full at any moment, and state that was damaged: a sentence, and the same bytes."""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pdflow.cloud import PointCloud
from pdflow.errors import PdflowError
from pdflow.io import write
from pdflow.pipeline.passes import Pass
from pdflow.tiles import stages
from pdflow.tiles.run import TileRun
from pdflow.tiles.sealed import is_sound, write_sealed
from pdflow.tiles.state import state_folder
from pdflow.tiles.store import Store

MakeRun = Callable[..., TileRun]

POINTS = 800
"""Few, because a run is repeated many times."""

SUITE_STEP = 7
"""In the suite every so many writes fail; PDFLOW_EVERY_WRITE=1 lets each of them fail."""


@pytest.fixture
def noisy(tmp_path: Path, strip: PointCloud, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small file; and a network that only pushes points, as what it does is not tested here."""
    write(tmp_path / "noisy.las", strip[:POINTS])

    def push(self: Pass) -> list[np.ndarray]:
        points = self.search.points * [1, 1, 0.9]
        return [points, points] if self.done == 0 and self.plan.coarse else [points]

    monkeypatch.setattr(Pass, "answers", push)
    return tmp_path / "noisy.las"


@pytest.fixture
def tile_run(tile_run: MakeRun) -> MakeRun:
    """Runs over tiles so small that the file makes several."""
    return partial(tile_run, tile_points=POINTS // 2)


_MKDIR = os.mkdir


class FullDisk:
    """Counts what writes to the disk under a folder, and lets one of these calls fail."""

    def __init__(self, folder: Path, fails: int | None) -> None:
        self.folder, self.fails, self.calls = folder, fails, 0

    def call(self) -> None:
        self.calls += 1
        if self.calls == self.fails:
            raise OSError(errno.ENOSPC, "No space left on device")

    @contextmanager
    def mounted(self) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            for name in ("fsync", "replace", "mkdir"):
                patch.setattr(os, name, self._counted(getattr(os, name)))
            original = io.open

            def opened(file: Any, mode: str = "r", *args: Any, **options: Any) -> Any:
                stream = original(file, mode, *args, **options)
                if not isinstance(file, int) and self.folder in Path(file).parents:
                    return _Counted(stream, self) if set(mode) & set("wax+") else stream
                return stream

            patch.setattr(io, "open", opened)
            patch.setattr("builtins.open", opened)
            yield

    def _counted(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            other = isinstance(args[0], str | Path) and self.folder not in Path(args[0]).parents
            # To make a folder that exists takes no room.
            if not other and not (function is _MKDIR and Path(args[0]).exists()):
                self.call()
            return function(*args, **options)

        return call


class _Counted:
    """A file whose writes are counted."""

    def __init__(self, stream: Any, disk: FullDisk) -> None:
        self._stream, self._disk = stream, disk

    def write(self, data: Any) -> Any:
        self._disk.call()
        return self._stream.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def __enter__(self) -> _Counted:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()


def test_a_disk_that_is_full_at_any_write(tmp_path: Path, noisy: Path, tile_run: MakeRun) -> None:
    counted, out = FullDisk(tmp_path, None), tmp_path / "clean.las"
    with counted.mounted():
        tile_run([noisy], [tmp_path / "alone.las"], iterations=1)()
    expected = (tmp_path / "alone.las").read_bytes()
    assert counted.calls > 40
    step = 1 if os.environ.get("PDFLOW_EVERY_WRITE") else SUITE_STEP
    for number in range(1, counted.calls + 1, step):
        out.write_bytes(b"old")
        run, disk = tile_run([noisy], [out], iterations=1), FullDisk(tmp_path, number)
        with disk.mounted(), pytest.raises(PdflowError, match="No space left") as caught:
            run()
        assert "\n" not in str(caught.value)
        # The last writes come after the output, which is complete by then.
        assert out.read_bytes() in (b"old", expected), number
        stages.open_tiles.cache_clear()
        run()
        assert out.read_bytes() == expected, number
        assert not state_folder([out]).exists()


class Stop(BaseException):
    """What no code catches, like a kill."""


@pytest.fixture
def stopped(
    tmp_path: Path, noisy: Path, tile_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> tuple[TileRun, bytes]:
    """A run that was stopped before it wrote its output; and the bytes that it should write."""
    tile_run([noisy], [tmp_path / "alone.las"], iterations=1)()
    run = tile_run([noisy], [tmp_path / "clean.las"], iterations=1)
    with monkeypatch.context() as patch:

        def stop(*_: object) -> None:
            raise Stop

        patch.setattr("pdflow.tiles.run.write_output", stop)
        with pytest.raises(Stop):
            run()
    stages.open_tiles.cache_clear()
    return run, (tmp_path / "alone.las").read_bytes()


def _flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 16
    path.write_bytes(content)


def _truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


DAMAGES = {"flipped": _flip, "truncated": _truncate, "deleted": Path.unlink}


def test_damaged_state_is_made_anew(stopped: tuple[TileRun, bytes], tmp_path: Path) -> None:
    run, expected = stopped
    folder, out = state_folder(run.outputs), tmp_path / "clean.las"
    kept = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    names = {path.relative_to(folder).parts[0] for path in kept}
    assert names >= {
        "index.npz", "survey.npz", "passes", "points", "rows", "outliers", "pass-1", "limit",
        "model.safetensors",
    }  # fmt: skip
    victims = [min(path for path in kept if name in path.parts) for name in names]
    for victim in victims:
        if victim.name in ("job.json", "lock"):
            continue
        for name, damage in DAMAGES.items():
            for path, content in kept.items():
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
            damage(victim)
            stages.open_tiles.cache_clear()
            run()
            assert out.read_bytes() == expected, (victim.name, name)
            out.unlink()


@pytest.mark.parametrize("damage", [_flip, _truncate])
def test_a_damaged_description_is_told(
    stopped: tuple[TileRun, bytes], damage: Callable[[Path], None], tmp_path: Path
) -> None:
    run, _ = stopped
    damage(state_folder(run.outputs) / "job.json")
    with pytest.raises(PdflowError, match="delete"):
        run()
    assert not (tmp_path / "clean.las").exists()


def test_another_version_is_refused(
    stopped: tuple[TileRun, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    run, _ = stopped
    monkeypatch.setattr("pdflow.tiles.run.__version__", "0.0.1")
    with pytest.raises(PdflowError, match="other version"):
        run()


def test_a_tile_that_is_removed_during_the_run_is_told(
    tmp_path: Path, noisy: Path, tile_run: MakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tile_run([noisy], [tmp_path / "clean.las"], iterations=1)
    original = stages.Tiles.run

    def remove(self: stages.Tiles, stage: str, tile: int) -> None:
        if stage == stages.LIMIT:
            self.store.path(stages.OUTLIERS, tile).unlink(missing_ok=True)
        original(self, stage, tile)

    with monkeypatch.context() as patch:
        patch.setattr(stages.Tiles, "run", remove)
        with pytest.raises(PdflowError, match="removed during the run"):
            run()
    stages.open_tiles.cache_clear()
    run()


def test_the_second_of_two_outputs_is_written_after_a_stop(
    tmp_path: Path, noisy: Path, strip: PointCloud, tile_run: MakeRun
) -> None:
    write(tmp_path / "other.las", strip[POINTS : 2 * POINTS])
    sources = [noisy, tmp_path / "other.las"]
    alone = [tmp_path / "a1.las", tmp_path / "a2.las"]
    expected = [(t.points, t.held_back) for t, _ in tile_run(sources, alone, iterations=1)()]
    outputs = [tmp_path / "c1.las", tmp_path / "c2.las"]
    with pytest.MonkeyPatch.context() as patch:
        from pdflow.tiles import run as module

        original = module.write_output

        def one(results: Any, inputs: Any, number: int, *rest: Any) -> Any:
            if number == 1:
                raise Stop
            return original(results, inputs, number, *rest)

        patch.setattr(module, "write_output", one)
        with pytest.raises(Stop):
            tile_run(sources, outputs, iterations=1)()
    stages.open_tiles.cache_clear()
    done = tile_run(sources, outputs, iterations=1)()
    assert [(t.points, t.held_back) for t, _ in done] == expected
    for path, other in zip(outputs, alone, strict=True):
        assert path.read_bytes() == other.read_bytes()


def test_files_know_whether_they_are_whole(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for data in (b"", b"some words"):
        write_sealed(path, data)
        assert is_sound(path)
        for length in range(len(data) + 4):
            path.write_bytes((data + b"....")[:length])
            assert not is_sound(path)


def test_a_truncated_file_is_told_when_it_is_read(tmp_path: Path) -> None:
    (tmp_path / "points").write_bytes(b"short")

    class Small(Store):
        index = type("Index", (), {"offsets": np.array([0, 4])})()

    with pytest.raises(PdflowError, match="truncated"):
        Small(tmp_path).read_all("points", np.array([0]))
