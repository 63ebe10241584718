"""The API as users write it: `make types` checks this file, nothing runs it.

An ignored error must be an error: mypy is strict, and reports ignores that are not needed.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

import pdflow


def arrays(points: NDArray[np.float64]) -> NDArray[np.floating]:
    clean: NDArray[np.floating] = pdflow.denoise(points, mode="points", iterations=2)
    more, report = pdflow.denoise([[0.0, 0.0, 0.0]], return_report=True, outliers="mark")
    seconds: float = report.seconds
    assert seconds >= 0
    assert len(more)
    return clean


def tensors(points: torch.Tensor) -> torch.Tensor:
    clean: torch.Tensor = pdflow.denoise(points, device="cpu", noise=0.01)
    return clean


def clouds(path: Path) -> pdflow.Report:
    cloud: pdflow.PointCloud = pdflow.denoise(pdflow.read(path), partitions="auto", seed=1)
    pdflow.write(path.with_suffix(".ply"), cloud)
    model: pdflow.PDFlow = pdflow.load_model("pdflow")
    done: pdflow.Denoised = pdflow.Denoiser(model, mode="resample", points=100)(cloud)
    try:
        level: pdflow.NoiseEstimate = pdflow.estimate_noise(done.cloud.points)
        print(level.sigma)
    except pdflow.PdflowError as error:
        print(error)
    return done.report


def mistakes(points: NDArray[np.float64], model: pdflow.PDFlow) -> None:
    pdflow.denoise(points, mode="fast")  # type: ignore[call-overload]
    pdflow.denoise(points, iteration=2)  # type: ignore[call-overload]
    pdflow.denoise(points, outliers="hide")  # type: ignore[call-overload]
    pdflow.Denoiser(model, mode="fast")  # type: ignore[arg-type]
