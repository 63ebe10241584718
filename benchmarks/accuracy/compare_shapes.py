"""CD of every training shape, beside that of an earlier version of pdflow.

    git worktree add ../before d840f34
    python benchmarks/accuracy/compare_shapes.py DATA ../before [--models pdflow pdflow-benchmark]
        [--mode points] [--device cuda]

DATA is ScoreDenoise's folder. All 40 training shapes are denoised at 10K and 50K points and with
1, 2 and 3 % noise, the level not told, by the earlier version's default network and by those of
this one. Each shape's CD is divided by the earlier version's, so that all shapes count alike. All
networks but the earlier one were trained on all of these shapes, and the earlier one on 35 of them:
this finds shapes that a change has harmed, and is no measure of what a network does with others.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

HERE = Path(__file__).resolve().parents[2]
POINTS, LEVELS, SEED = (10_000, 50_000), (0.01, 0.02, 0.03), 0
WORST = 3
"""Shapes of a cell that are named."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("before", type=Path, help="checkout of the earlier version")
    parser.add_argument("--models", nargs="+", default=["pdflow", "pdflow-benchmark"])
    parser.add_argument("--mode", default="points")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--run", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.run:
        denoise_shapes(asked.run, asked.models[0], asked.mode, asked.device)
    else:
        compare(asked)


def compare(asked: argparse.Namespace) -> None:
    """Print, by model and cell, CD relative to that of the earlier version."""
    from pdflow.metrics import sq_chamfer
    from pdflow.provenance import describe_machine, source_version
    from pdflow.train.folders import read_source

    print(f"{describe_machine()}\ncommit {source_version()}, beside {asked.before}, seed {SEED}")
    print(f"mode {asked.mode}, {asked.device}\n")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        clean = read_source(asked.data, (), folder).clouds
        for shape, clouds in clean.items():
            for cloud in (cloud for cloud in clouds if len(cloud) in POINTS):
                np.save(folder / f"{shape}.{len(cloud)}.npy", cloud)
        runs = [(asked.before, "pdflow"), *((HERE, model) for model in asked.models)]
        # All at once: they wait for the device in turns.
        paths = [folder / f"{number}.npz" for number in range(len(runs))]
        started = [start(*run, path, asked) for run, path in zip(runs, paths, strict=True)]
        found = []
        for (tree, model), path, process in zip(runs, paths, started, strict=True):
            if process.wait():
                raise SystemExit(f"{model} of {tree} failed")
            with np.load(path) as arrays:
                found.append({key: arrays[key] for key in arrays.files})
    truth = {f"{shape}.{len(cloud)}": cloud for shape, some in clean.items() for cloud in some}
    errors = [
        {key: sq_chamfer(points, truth[key.rpartition("@")[0]]) for key, points in run.items()}
        for run in found
    ]
    for (_, model), own in zip(runs[1:], errors[1:], strict=True):
        print(f"\n{model}\n\n| points, noise | geometric mean | worst shapes |\n|---|---|---|")
        for count in POINTS:
            for level in LEVELS:
                print(line_of(count, level, own, errors[0]), flush=True)


def start(tree: Path, model: str, path: Path, asked: argparse.Namespace) -> subprocess.Popen[bytes]:
    """A process that denoises all shapes beside `path` and writes them there."""
    words = [asked.data, tree, "--run", path, "--models", model, "--mode", asked.mode]
    words += ["--device", asked.device]
    environment = {**os.environ, "PYTHONPATH": str(tree.resolve() / "src")}
    command = [sys.executable, __file__, *map(str, words)]
    return subprocess.Popen(command, env=environment)


def denoise_shapes(path: Path, model: str, mode: str, device: str) -> None:
    """Denoise every cloud of the folder at every level with the package that is imported."""
    from pdflow import Denoiser, PointCloud, load_model

    run, done = Denoiser(load_model(model, device), mode=mode), {}
    for file in sorted(path.parent.glob("*.npy")):
        clean = np.load(file)
        for level in LEVELS:
            rng = np.random.default_rng([SEED, round(1000 * level), *file.stem.encode()])
            noisy = clean + level * rng.standard_normal(clean.shape)
            done[f"{file.stem}@{level:g}"] = run(PointCloud(noisy)).cloud.points
    np.savez(path, **done)


def line_of(count: int, level: float, own: dict[str, float], before: dict[str, float]) -> str:
    """A line of a table: a cell's geometric mean, and the shapes that lose most or gain least."""
    ending = f".{count}@{level:g}"
    shapes = [key for key in own if key.endswith(ending)]
    ratios: NDArray[np.float64] = np.array([own[key] / before[key] for key in shapes])
    worst = np.argsort(-ratios)[:WORST]
    named = ", ".join(f"{shapes[row].removesuffix(ending)} {ratios[row]:.3f}" for row in worst)
    return f"| {count // 1000}K, {level:.0%} | {np.exp(np.log(ratios).mean()):.3f} | {named} |"


if __name__ == "__main__":
    main()
