"""Who does the stages of tiles: this process, or the workers of a Dask cluster."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

from pdflow.errors import PdflowError
from pdflow.lazy import require
from pdflow.tiles.stages import run_stage

RETRIES = 3
"""How often a stage of a tile is tried on another worker before the run fails."""


class Workers(Protocol):
    """Does one stage of several tiles."""

    def __call__(
        self, folder: Path, name: str, stage: str, tiles: Sequence[int], done: Callable[[int], None]
    ) -> None:
        """Do a stage of tiles, in any order; `done` is called with each tile.

        name  of the run in the folder
        """
        ...


def this_process(
    folder: Path, name: str, stage: str, tiles: Sequence[int], done: Callable[[int], None]
) -> None:
    """`Workers` that does one tile after the other."""
    for tile in tiles:
        try:
            run_stage(str(folder), name, stage, tile)
        except FileNotFoundError as error:
            raise PdflowError(
                f"{error.filename} was removed during the run: repeat the command to go on."
            ) from error
        done(tile)


class DaskWorkers:
    """`Workers` on a Dask cluster.

    client  a `dask.distributed.Client`

    A task is the name of a folder, a stage and the number of a tile, and so is its result: the
    data stay in files, which all workers must see under the same path. A worker that dies has
    its tiles done by others.
    """

    def __init__(self, client: Any) -> None:
        self.client = client

    def __call__(
        self, folder: Path, name: str, stage: str, tiles: Sequence[int], done: Callable[[int], None]
    ) -> None:
        """Do a stage of tiles, in any order; `done` is called with each tile."""
        from distributed import KilledWorker, as_completed

        futures = [
            self.client.submit(
                run_stage, str(folder.resolve()), name, stage, tile,
                key=f"pdflow-{name}-{stage}-{tile}", retries=RETRIES, pure=False,
            )
            for tile in tiles
        ]  # fmt: skip
        try:
            for future in as_completed(futures):
                try:
                    _, tile = future.result()
                except KilledWorker as error:
                    raise PdflowError(
                        f"Workers died again and again at the stage {stage} of a tile, perhaps for "
                        "lack of memory: give them more, or lower --memory."
                    ) from error
                except FileNotFoundError as error:
                    raise PdflowError(
                        f"A worker does not see {error.filename}: inputs and outputs must lie in a "
                        "folder that all hosts share under the same path."
                    ) from error
                done(tile)
        finally:
            self.client.cancel(futures)


def dask_workers(client: Any) -> tuple[Workers, int]:
    """The workers of a cluster, and how many there are now."""
    return DaskWorkers(client), max(1, len(client.scheduler_info()["workers"]))


def local_cluster(count: int) -> AbstractContextManager[Any]:
    """A client of a cluster of `count` processes on this machine, which ends with the block."""
    distributed = require("distributed", extra="dask", purpose="--workers")
    return _Closing(
        distributed.LocalCluster(
            n_workers=count,
            threads_per_worker=1,
            processes=True,
            dashboard_address=None,
            memory_limit=0,
            silence_logs=logging.ERROR,
        ),
        distributed,
    )


def connect(address: str) -> AbstractContextManager[Any]:
    """A client of the cluster whose scheduler has this address, such as tcp://host:8786."""
    distributed = require("distributed", extra="dask", purpose="--cluster")
    try:
        return distributed.Client(address, timeout="10s")  # type: ignore[no-any-return]
    except (OSError, TimeoutError, ValueError) as error:
        raise PdflowError(
            f"No Dask scheduler answers at {address}: start `dask scheduler`, or check the address."
        ) from error


class _Closing:
    """A client together with its cluster, whose workers share the cores of this machine."""

    def __init__(self, cluster: Any, distributed: Any) -> None:
        self._cluster, self._client = cluster, distributed.Client(cluster)
        if hasattr(os, "sched_setaffinity"):
            count = len(cluster.workers)
            cores = sorted(os.sched_getaffinity(0))
            shares = [set(cores[n::count]) or {cores[n % len(cores)]} for n in range(count)]

            class OwnCores(distributed.WorkerPlugin):  # type: ignore[misc]
                """Binds a worker, also one that takes the place of a dead one, to its cores."""

                def setup(self, worker: Any) -> None:
                    os.sched_setaffinity(0, shares[worker.name % count])

            self._client.register_plugin(OwnCores())

    def __enter__(self) -> Any:
        return self._client

    def __exit__(self, *_: object) -> None:
        self._client.close()
        self._cluster.close()
