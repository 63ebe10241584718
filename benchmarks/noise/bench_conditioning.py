"""What the rule for noise conditioning changes, with the whole pipeline.

    python benchmarks/noise/bench_conditioning.py [--data DIR] [--seeds 3] [--model pdflow]

Prints CD and P2M with the rule over those without it: geometric means, and the worst P2M. Scenes
have seeds that nothing was fitted to; the shapes are every fourth of PUSet's training shapes in
DIR, with each kind of noise, and P2M is measured to their 50,000 points.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import numpy as np
from noisy_shapes import clean_points, shape_names

from pdflow.bench.scan_cases import Output, ScanCase, measure_scan
from pdflow.cloud import PointCloud
from pdflow.geometry import knn
from pdflow.metrics.nearest import sq_chamfer
from pdflow.noise.estimate import NoiseEstimate
from pdflow.noise.models import KINDS as NOISES
from pdflow.noise.models import add_noise
from pdflow.pipeline.denoise import Denoiser
from pdflow.provenance import source_version
from pdflow.scenes.cases import KINDS, make_case
from pdflow.weights import load_model

FIRST_CASE = 900_700
TILE_SIGMA = 0.025
MEASURE = measure_scan((), correlated=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--seeds", type=int, default=3, help="scenes of each kind")
    parser.add_argument("--model", default="pdflow")
    options = parser.parse_args()
    denoiser = Denoiser(load_model(options.model))
    print(f"{options.model}, {source_version()}: CD, P2M with the rule over without, worst P2M")
    for kind in KINDS:
        if "outliers" not in kind:
            ratios = [of_scene(denoiser, case) for case in scenes(kind, options.seeds)]
            show(kind, ratios)
    pack = options.data / "punet_train.npz"
    for noise in NOISES:
        for level in (0.01, 0.02):
            show(f"{noise} {level}", of_shapes(denoiser, pack, noise, level))


def scenes(kind: str, count: int, first: int = FIRST_CASE) -> list[ScanCase]:
    """Scenes of a kind, as the table of scans has them."""
    points = 2000 if kind == "sparse-detail" else 9000
    terrain = KINDS[kind].surfaces == ("terrain",)
    levels = [{"sigma": TILE_SIGMA}] if terrain else [{"level": 0.005}, {"level": 0.012}]
    seeds = range(first, first + count)
    return [
        ScanCase.of(make_case(kind, seed, points, **level), False)
        for seed in seeds
        for level in levels
    ]


def of_scene(denoiser: Denoiser, case: ScanCase) -> np.ndarray:
    def errors(points: np.ndarray) -> tuple[float, float]:
        measured = MEASURE(case, Output(points))
        return measured["cd"], measured["p2m_one_way"]

    return with_over_without(denoiser, case.noisy, errors)


def of_shapes(denoiser: Denoiser, pack: Path, noise: str, level: float) -> list[np.ndarray]:
    ratios = []
    for seed, name in enumerate(shape_names(pack)[1::4]):
        clean, dense = clean_points(pack, 10_000, name), clean_points(pack, 50_000, name)

        def errors(points: np.ndarray) -> tuple[float, float]:
            return sq_chamfer(points, clean), float(knn(dense, points, 1)[0].mean())  # noqa: B023

        ratios.append(
            with_over_without(denoiser, add_noise(clean, noise, level, seed=seed), errors)
        )
    return ratios


def with_over_without(
    denoiser: Denoiser, noisy: np.ndarray, errors: Callable[[np.ndarray], tuple[float, float]]
) -> np.ndarray:
    ruled = errors(denoiser(PointCloud(noisy)).cloud.points)
    with patch.object(NoiseEstimate, "conditioning_at", NoiseEstimate.at):
        return np.array(ruled) / errors(denoiser(PointCloud(noisy)).cloud.points)


def show(name: str, ratios: list[np.ndarray]) -> None:
    cd, p2m = np.exp(np.log(ratios).mean(axis=0))
    print(f"{name:22} {cd:.3f} {p2m:.3f} {np.max(ratios, axis=0)[1]:.2f}", flush=True)


if __name__ == "__main__":
    main()
