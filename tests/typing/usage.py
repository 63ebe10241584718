"""The API as users write it: `make types` checks this file, nothing runs it.

An ignored error must be an error: mypy and pyright report ignores that are not needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

import pdflow


@dataclass
class Scan:
    """A cloud of the user's own."""

    points: NDArray[np.float32]
    station: str


def arrays(points: NDArray[np.float32], whole: NDArray[np.int64]) -> NDArray[np.float32]:
    clean: NDArray[np.float32] = pdflow.denoise(points, mode="points", iterations=2)
    floats: NDArray[np.floating] = pdflow.denoise(whole)
    more, report = pdflow.denoise([[0.0, 0.0, 0.0]], return_report=True, outliers="remove")
    seconds: float = report.seconds
    assert seconds >= 0
    assert len(more) + len(floats)
    marked, columns = pdflow.denoise(points, outliers="mark")
    outlier: NDArray[np.uint8] = columns["outlier"]
    moved, shift, told = pdflow.denoise(points, displacement=True, return_report=True)
    print(told.iterations, shift["displacement"], outlier.sum())
    both: tuple[NDArray[np.float32], NDArray[np.float32]] = (marked, moved)
    return clean + both[0]


def tensors(points: torch.Tensor) -> torch.Tensor:
    clean: torch.Tensor = pdflow.denoise(points, device="cpu", noise=0.01)
    marked, columns = pdflow.denoise(points, outliers="mark", displacement=True)
    outlier: torch.Tensor = columns["outlier"]
    return clean + marked * outlier[:, None]


def clouds(path: Path) -> pdflow.Report:
    cloud: pdflow.PointCloud = pdflow.denoise(pdflow.read(path), partitions="auto", seed=1)
    marked: pdflow.PointCloud = pdflow.denoise(cloud, outliers="mark", progress=True)
    pdflow.write(path.with_suffix(".ply"), marked)
    model: pdflow.PDFlow = pdflow.load_model("pdflow")
    done: pdflow.Denoised = pdflow.Denoiser(model, mode="resample", points=100)(cloud)
    try:
        level: pdflow.NoiseEstimate = pdflow.estimate_noise(done.cloud.points)
        print(level.sigma)
    except pdflow.PdflowError as error:
        print(error)
    return done.report


def lists(several: list[pdflow.PointCloud], many: list[torch.Tensor]) -> list[pdflow.Report]:
    clean: list[pdflow.PointCloud] = pdflow.denoise(several)
    tensors_too: list[torch.Tensor] = pdflow.denoise(many)
    same, reports = pdflow.denoise(several, return_report=True)
    first: pdflow.PointCloud = same[0]
    print(len(clean), len(tensors_too), first)
    return reports


def others(scan: Scan, library_without_types: Any) -> Scan:
    pdflow.denoise(library_without_types, mode="resample").save("clean.pcd")
    clean: Scan = pdflow.denoise(scan, progress=lambda done: print(f"{done:.0%}"))
    return clean


def mistakes(points: NDArray[np.float64], model: pdflow.PDFlow) -> None:
    pdflow.denoise(points, mode="fast")  # type: ignore[call-overload]
    pdflow.denoise(points, iteration=2)  # type: ignore[call-overload]
    pdflow.denoise(points, outliers="hide")  # type: ignore[call-overload]
    pdflow.Denoiser(model, mode="fast")  # type: ignore[arg-type]
