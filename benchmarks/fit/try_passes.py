"""What more passes bring, and how much each should smooth: held-out shapes, and made scans.

    python benchmarks/fit/try_passes.py DATA [--seeds 2] [--only shapes|scans]

DATA is ScoreDenoise's folder. Shapes are the held-out ones, with `pdflow-fast`, which never saw
them; scans are scenes of development seeds, with `pdflow`. Each setting is named by its
pass_thresholds and conditioning_scales. Figures are relative to the first setting: geometric means,
and the worst. On shapes, the squared distance is that to planes through the 50,000 clean points; on
scans it is P2M.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pdflow.bench.scan_cases import Output, ScanCase, measure_scan
from pdflow.cloud import PointCloud
from pdflow.geometry import knn
from pdflow.geometry.normals import fit_normals
from pdflow.metrics import sq_chamfer
from pdflow.noise import add_noise
from pdflow.pipeline.denoise import Denoiser
from pdflow.provenance import describe_machine, source_version
from pdflow.scenes.cases import KINDS, make_case
from pdflow.train.folders import read_source
from pdflow.train.recipe import load_recipe
from pdflow.weights import load_model

SEED, FIRST_SCENE, TILE_SIGMA = 0, 900_900, 0.025
NEIGHBOURS = 12
MEASURE = measure_scan((), correlated=False)
SHAPES = ((10_000, 0.01), (10_000, 0.02), (10_000, 0.03), (50_000, 0.01))


class Setting(NamedTuple):
    """Settings of a network's inference, and the overlap of patches."""

    pass_thresholds: tuple[float, ...]
    conditioning_scales: tuple[float, float, float]
    overlap: float = 3.0


FOR_SHAPES = [
    Setting((0.04,), (0.8, 0.75, 0.3)),
    Setting((0.001,), (0.8, 0.75, 0.3)),
    Setting((0.001,), (0.9, 0.75, 0.3)),
    Setting((0.001, 0.04), (0.8, 0.75, 0.3)),
    Setting((0.001, 0.04), (0.8, 0.7, 0.3)),
    Setting((0.001, 0.04), (0.8, 0.65, 0.3)),
]
FOR_SCANS = [
    Setting((0.04,), (0.9, 0.75, 0.3)),
    Setting((0.001,), (0.75, 0.75, 0.3)),
    Setting((0.001,), (0.85, 0.75, 0.3)),
    Setting((0.001,), (0.9, 0.75, 0.3)),
    Setting((0.001,), (0.9, 0.75, 0.2)),
    Setting((0.001, 0.04), (0.85, 0.7, 0.3)),
    Setting((0.001, 0.04), (0.85, 0.7, 0.3), 2.0),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--seeds", type=int, default=2, help="scenes of each kind")
    parser.add_argument("--only", choices=["shapes", "scans"])
    options = parser.parse_args()
    print(f"{describe_machine()}\ncommit {source_version()}, seed {SEED}\n")
    print("| cloud | passes above | scales | overlap | CD | squared distance | worst of each |")
    print("|---|---|---|---|---|---|---|")
    if options.only != "scans":
        held = held_out(options.data)
        for points, level in SHAPES:
            run = shapes(held, points, level)
            compare(f"shapes, {points // 1000}K, {level:.0%}", "pdflow-fast", FOR_SHAPES, run)
    if options.only != "shapes":
        for kind in KINDS:
            if "outliers" not in kind:
                compare(kind, "pdflow", FOR_SCANS, scans(kind, options.seeds))


Errors = Callable[[Denoiser], Iterator[tuple[float, float]]]


def compare(name: str, model: str, settings: list[Setting], errors: Errors) -> None:
    """Print a line for each setting but the first."""
    found = [np.array([*errors(denoiser(model, setting))]) for setting in settings]
    for setting, values in zip(settings[1:], found[1:], strict=True):
        ratios = values / found[0]
        means, worst = np.exp(np.log(ratios).mean(axis=0)), ratios.max(axis=0)
        passes, scales = (" ".join(f"{number:g}" for number in part) for part in setting[:2])
        figures = f"{means[0]:.3f} | {means[1]:.3f} | {worst[0]:.2f} {worst[1]:.2f}"
        print(
            f"| {name} | {passes} | {scales} | {setting.overlap:g} | {figures} |",
            flush=True,
        )


def denoiser(name: str, setting: Setting) -> Denoiser:
    model = copy(load_model(name))
    passes, scales, overlap = setting
    model.inference = replace(model.inference, pass_thresholds=passes, conditioning_scales=scales)
    return Denoiser(model, overlap=overlap)


def held_out(data: Path) -> dict[str, dict[int, np.ndarray]]:
    """Clean clouds by shape and number of points."""
    holdout = load_recipe("pdflow-fast").data.holdout
    held = read_source(data, (), Path("cache")).split(holdout)[1]
    return {name: {len(c): c for c in clouds} for name, clouds in held.clouds.items()}


def shapes(held: dict[str, dict[int, np.ndarray]], points: int, level: float) -> Errors:
    """CD and the squared distance to the surface of each held-out shape."""

    def errors(run: Denoiser) -> Iterator[tuple[float, float]]:
        for clouds in held.values():
            clean, dense = clouds[points], clouds[50_000]
            normals = fit_normals(dense, dense, NEIGHBOURS)
            done = run(PointCloud(add_noise(clean, "gaussian", level, SEED))).cloud.points
            near = knn(dense, done, 1)[1][:, 0]
            off = ((done - dense[near]) * normals[near]).sum(axis=1)
            yield sq_chamfer(done, clean), float((off**2).mean())

    return errors


def scans(kind: str, count: int) -> Errors:
    """CD and P2M of development scenes of a kind."""
    points = 2000 if kind == "sparse-detail" else 9000
    terrain = KINDS[kind].surfaces == ("terrain",)
    levels = [{"sigma": TILE_SIGMA}] if terrain else [{"level": 0.005}, {"level": 0.012}]
    cases = [
        ScanCase.of(make_case(kind, seed, points, **level), False)
        for seed in range(FIRST_SCENE, FIRST_SCENE + count)
        for level in levels
    ]

    def errors(run: Denoiser) -> Iterator[tuple[float, float]]:
        for case in cases:
            measured = MEASURE(case, Output(run(PointCloud(case.noisy)).cloud.points))
            yield measured["cd"], measured["p2m_one_way"]

    return errors


if __name__ == "__main__":
    main()
