"""`denoise_files`: files in, files out, of any size and on any number of machines."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pdflow.backends import Progress
from pdflow.device import named_device
from pdflow.errors import PdflowError
from pdflow.io import drop_nonfinite as without_nonfinite
from pdflow.io import find_format, read, require_finite, write
from pdflow.model import PDFlow
from pdflow.pipeline.api import DEFAULT_MODEL
from pdflow.pipeline.denoise import Denoiser
from pdflow.pipeline.history import (
    describe_run,
    outlier_class,
    with_digits,
    with_history,
    with_outlier_class,
)
from pdflow.pipeline.progress import reporting, scaled
from pdflow.pipeline.results import Report
from pdflow.tiles.choose import choose_way
from pdflow.tiles.groups import touching_files
from pdflow.tiles.index import Inputs
from pdflow.tiles.memory import parse_size
from pdflow.tiles.progress import Step, StepListener
from pdflow.tiles.run import TileRun
from pdflow.tiles.workers import dask_workers, this_process
from pdflow.weights import load_model

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from pdflow.pipeline.signature import CloudOptions

PathLike = str | os.PathLike[str]

OPTIONS = (
    "mode", "iterations", "partitions", "overlap", "radius", "noise", "max_move", "where",
    "outliers", "outlier_class", "displacement", "uncertainty", "seed",
)  # fmt: skip
"""Options of a `Denoiser` that a run over tiles keeps in its folder."""


def tile_options(denoiser: Denoiser) -> dict[str, Any]:
    """The options of a run over tiles."""
    options = {name: getattr(denoiser, name) for name in OPTIONS}
    if not isinstance(options["noise"], (str, float, int)):
        raise PdflowError("Files take one noise level, or the name of an attribute.")
    if not isinstance(options["where"], str | None):
        raise PdflowError("Files take a condition for where: give words such as 'z > 0'.")
    return options


def denoise_files(
    inputs: PathLike | Sequence[PathLike],
    output: PathLike,
    *,
    client: Any = None,
    memory: int | str | None = None,
    separate: bool = False,
    format: str | None = None,
    to: str | None = None,
    drop_nonfinite: bool = False,
    on_step: StepListener | None = None,
    **options: Unpack[CloudOptions],
) -> dict[Path, Report]:
    """Denoise files that need not fit in memory; a report for each output.

    inputs    a file, or several: those that touch like the sheets of a map are one cloud
    output    a file for one input, a directory for several
    client    a `dask.distributed.Client`, whose workers do the tiles; None: this process does
    memory    bytes that a process may take, or text such as "4GiB"; by default half of what is free
    separate  whether files that touch are treated as unrelated
    format, to  formats of inputs and outputs, if suffixes do not say
    drop_nonfinite  drops NaN and infinite points, which are an error otherwise
    on_step   is called with a `Step` when a tile is done: its stage, tiles, points and speed
    options   `model`, `device` and the other options of `denoise`, in mode "points"

    A cloud that fits is denoised as a whole. A run over tiles that was stopped goes on when it is
    called again with the same files and options; its state lies beside the output until it ends.

    >>> import numpy as np, pdflow, tempfile
    >>> noisy = np.random.default_rng(0).random((300, 3)) * [1, 1, 0.05]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pdflow.write(f"{folder}/noisy.ply", pdflow.PointCloud(noisy))
    ...     done = pdflow.denoise_files(f"{folder}/noisy.ply", f"{folder}/clean.ply", iterations=1)
    >>> [(path.name, report.points) for path, report in done.items()]
    [('clean.ply', 300)]
    """
    several = not isinstance(inputs, (str, os.PathLike))
    names = inputs if not isinstance(inputs, (str, os.PathLike)) else [inputs]
    sources = [Path(name) for name in names]
    target = Path(output)
    targets = [target]
    if several or target.is_dir():
        target.mkdir(parents=True, exist_ok=True)
        targets = [target / source.name.replace(".copc.", ".") for source in sources]
    chosen: dict[str, Any] = dict(options)
    model, device = chosen.pop("model", DEFAULT_MODEL), chosen.pop("device", None)
    chosen_progress = chosen.pop("progress", None)
    name = "own" if isinstance(model, PDFlow) else str(model)
    if not isinstance(model, PDFlow):
        model = load_model(model, named_device(device))
    denoiser = Denoiser(model, **chosen)
    history = describe_run(denoiser, name)
    budget = parse_size(memory) if isinstance(memory, str) else memory
    groups = [[number] for number in range(len(sources))]
    if denoiser.mode == "points" and not separate:
        groups = touching_files(sources, format)
    workers, count = (this_process, 0) if client is None else dask_workers(client)
    reports: dict[Path, Report] = {}
    with reporting(chosen_progress) as advance:
        for group in groups:
            heard = scaled(advance, 1 / len(groups))
            paths, outputs = [sources[i] for i in group], [targets[i] for i in group]
            way = choose_way(paths, outputs, format, denoiser.mode, budget, count, to)
            if way.whole:
                cloud = read(paths[0], format)
                if drop_nonfinite:
                    cloud, _ = without_nonfinite(cloud)
                done = denoiser(require_finite(cloud, paths[0]), heard)
                kind = find_format(outputs[0], to).name
                clean = with_digits(done.cloud, cloud, kind)
                clean = with_outlier_class(clean, outlier_class(vars(denoiser), kind))
                write(outputs[0], with_history(clean, history, kind), to)
                reports[outputs[0]] = done.report
                continue
            run = TileRun(
                Inputs(paths, format, drop_nonfinite),
                outputs,
                to,
                model,
                device,
                tile_options(denoiser),
                way.tile_points,
                history,
            )
            written = run(workers, _listening(heard, on_step))
            reports.update(zip(outputs, [report for _, report in written], strict=True))
    return reports


def _listening(advance: Progress, on_step: StepListener | None) -> StepListener:
    """Hears the steps of a run, and tells the share that is done since the last one."""
    share = 0.0

    def hear(step: Step) -> None:
        nonlocal share
        advance(max(0.0, step.share - share))
        share = max(share, step.share)
        if on_step is not None:
            on_step(step)

    return hear
