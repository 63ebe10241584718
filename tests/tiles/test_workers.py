"""Tiles on Dask workers: the same bytes as from one process, also if a worker dies."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

import pdflow
from pdflow.cloud import PointCloud
from pdflow.errors import PdflowError
from pdflow.io import write
from pdflow.model import PDFlow
from pdflow.tiles import choose
from pdflow.tiles.progress import Step
from pdflow.tiles.workers import DaskWorkers, connect, local_cluster

distributed = pytest.importorskip("distributed")


def small_is_large_for_workers() -> Any:
    """Lets workers, also those that start later, find the strip large, as this process does."""

    class SmallIsLarge(distributed.WorkerPlugin):  # pickled by value, as it is local
        def setup(self, worker: Any) -> None:
            from pdflow.pipeline import large

            for name, value in {"LARGE": 2000, "CELL": 500, "PROBE_STEP": 4}.items():
                setattr(large, name, value)

    return SmallIsLarge()


def test_workers_give_the_same_bytes_though_one_dies(
    tmp_path: Path,
    strip: PointCloud,
    small_model: PDFlow,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write(tmp_path / "noisy.las", strip)
    source, alone, out = (tmp_path / f"{name}.las" for name in ("noisy", "alone", "clean"))
    monkeypatch.setattr(choose, "tile_points", lambda budget: 1500)
    monkeypatch.setattr(choose, "fits_whole", lambda *_: False)
    options: dict[str, Any] = {"iterations": 1, "partitions": 1, "model": small_model}
    pdflow.denoise_files(source, alone, device="cpu", **options)
    with local_cluster(2) as client:
        client.register_plugin(small_is_large_for_workers())
        pids: list[int] = list(client.run(os.getpid).values())
        steps: list[Step] = []

        def kill_one(step: Step) -> None:
            steps.append(step)
            if step.stage == "outliers" and step.tiles == 1:
                os.kill(pids[0], signal.SIGKILL)

        done = pdflow.denoise_files(
            source, out, client=client, on_step=kill_one, device="cpu", **options
        )
    assert out.read_bytes() == alone.read_bytes()
    assert done[out].points == len(strip)
    assert steps[-1].share == pytest.approx(1)


def test_a_scheduler_that_does_not_answer_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_answer(*_: object, **__: object) -> None:
        raise OSError("Timed out")

    monkeypatch.setattr(distributed, "Client", no_answer)
    with pytest.raises(PdflowError, match="No Dask scheduler answers at tcp://nowhere:8786"):
        connect("tcp://nowhere:8786")


def test_a_worker_that_does_not_see_the_files_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class Future:
        def result(self) -> None:
            raise FileNotFoundError(2, "No such file", "/data/job.json")

    class Client:
        def submit(self, *_: object, **__: object) -> Future:
            return Future()

        def cancel(self, futures: object) -> None:
            pass

    monkeypatch.setattr(distributed, "as_completed", iter)
    with pytest.raises(PdflowError, match=r"does not see /data/job\.json"):
        DaskWorkers(Client())(tmp_path, "run", "outliers", [0], lambda tile: None)
