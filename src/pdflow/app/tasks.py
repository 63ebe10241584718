"""What the worker does: open a cloud, denoise a cloud. Only the worker imports this module."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from pdflow.app.shelf import PAGE, RESULT, SCENE
from pdflow.cloud import PointCloud
from pdflow.io import atomic_path, drop_nonfinite, find_format, read, require_finite, write
from pdflow.noise.estimate import estimate_noise
from pdflow.pipeline.history import describe_run, with_digits, with_history
from pdflow.viewer.scene import build_scene
from pdflow.viewer.show import Page

SHOWN_POINTS = 1_000_000
"""Points of a cloud that the page shows; larger clouds are thinned there, and denoised whole."""

ESTIMATE_POINTS = 8_000_000
"""Points that the noise is estimated from; thinning does not change it."""

_LONGEST_NAME, _MOST_NAMES = 60, 40  # of attributes: a file may claim any

Report = Callable[[str, float], None]
"""Called with what is being done, and the share (0 to 1) of it that is done."""


@dataclass(frozen=True)
class Task:
    """One job, as the server describes it.

    kind     "open" or "denoise"
    source   the file; its suffix says the format
    name     what the user calls it, and `result_name` what the denoised file will be called
    drop     whether NaN and infinite points are dropped; otherwise they are an error
    folder   where results go
    options  of `Denoiser`, and the name of its model and device
    """

    kind: str
    source: Path
    name: str
    result_name: str
    drop: bool
    folder: Path
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def result(self) -> Path:
        """The file that a denoised cloud is written to."""
        return self.folder / f"{RESULT}{self.source.suffix}"


def run_task(task: Task, report: Report) -> dict[str, Any]:
    """Do a task and return what the page says about it, as JSON types."""
    return {"open": open_cloud, "denoise": denoise_cloud}[task.kind](task, report)


def open_cloud(task: Task, report: Report) -> dict[str, Any]:
    """Read a cloud, estimate its noise, and pack what the viewer shows of it."""
    report("reading", 0.0)
    cloud, dropped = _read(task.source, task.drop)
    report("estimating the noise", 0.4)
    estimate = estimate_noise(cloud.points[:: -(-len(cloud) // ESTIMATE_POINTS)])
    report("preparing the view", 0.7)
    scene = build_scene([(task.name, cloud)], None, SHOWN_POINTS)
    _keep(task.folder / SCENE, Page(scene).data)
    names = [name[:_LONGEST_NAME] for name in cloud.attributes]
    return {
        "points": len(cloud),
        "shown": len(scene.clouds[0].points),
        "dropped": dropped,
        "size": np.ptp(cloud.points, axis=0).tolist(),
        "unit": scene.unit,
        "attributes": names[:_MOST_NAMES],
        "noise": estimate.sigma,
        "relative_noise": estimate.relative,
        "noise_is_reliable": estimate.reliable,
    }


def denoise_cloud(task: Task, report: Report) -> dict[str, Any]:
    """Denoise the whole cloud, write it in the format of its source, and pack the comparison."""
    report("reading", 0.0)
    cloud, _ = _read(task.source, task.drop)
    report("loading the network", 0.0)
    from pdflow.pipeline.denoise import Denoiser

    options = dict(task.options)
    model = options.pop("model")
    denoiser = Denoiser(_model(model, options.pop("device")), **options)
    progress = _Progress(report)
    denoised = denoiser(cloud, progress.advance, progress.begin)
    report("writing", 1.0)
    format = find_format(task.source).name
    clean = with_digits(denoised.cloud, cloud, format)
    write(task.result, with_history(clean, describe_run(denoiser, model), format))
    clouds = [(task.name, cloud), (task.result_name, denoised.cloud)]
    page = Page(build_scene(clouds, None, SHOWN_POINTS))
    _keep(task.folder / SCENE, page.data)
    page.save(task.folder / PAGE)
    return denoised.report.as_dict()


def _keep(path: Path, data: bytes) -> None:
    """Write what the page will ask for."""
    with atomic_path(path) as temporary:
        temporary.write_bytes(data)


class _Progress:
    """Turns the stages and shares of a run into reports."""

    def __init__(self, report: Report) -> None:
        self._report, self._stage, self._done = report, "denoising", 0.0

    def begin(self, stage: str) -> None:
        self._stage = stage
        self._report(stage, self._done)

    def advance(self, share: float) -> None:
        self._done = min(self._done + share, 1.0)
        self._report(self._stage, self._done)


@lru_cache(maxsize=1)  # what was opened is denoised next
def _read(source: Path, drop: bool) -> tuple[PointCloud, int]:
    cloud = read(source)
    if drop:
        cloud, dropped = drop_nonfinite(cloud)
        return cloud, dropped
    return require_finite(cloud, source), 0


@lru_cache(maxsize=1)
def _model(name: str, device: str | None) -> Any:
    from pdflow.device import named_device
    from pdflow.weights import load_model

    return load_model(name, named_device(device))
