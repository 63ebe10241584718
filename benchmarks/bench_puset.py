"""Denoise shapes of PUSet and print CD, P2M and HD beside the noisy input.

    python benchmarks/bench_puset.py DATA [--model pdflow] [--points 10000] [--heldout]

DATA is ScoreDenoise's folder layout: `examples/PUNet_10000_poisson_0.01/NAME.xyz` (noisy),
`PUNet/pointclouds/test/10000_poisson/NAME.xyz` (clean), `PUNet/meshes/test/NAME.off`. The noise
level is never told. The test shapes are for the final table only; choices are made with
`--heldout`, on training shapes that the recipe leaves out (Gaussian noise of seed 0, and P2S in
place of P2M, for they have no mesh).
"""

from __future__ import annotations

import argparse
import platform
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

import pdflow
from pdflow.metrics import measure
from pdflow.noise.models import add_noise
from pdflow.pipeline import Denoiser
from pdflow.train.recipe import load_recipe

UNITS = {"cd": 1e4, "p2m": 1e4, "sq_p2s": 1e4, "hd": 1e3}
LEVELS = "0.01,0.02,0.03"


class Case(NamedTuple):
    noisy: pdflow.PointCloud
    clean: np.ndarray
    mesh: pdflow.TriangleMesh | None


def test_cases(data: Path, points: str, level: str) -> Iterator[Case]:
    clean = data / "PUNet" / "pointclouds" / "test" / f"{points}_poisson"
    for path in sorted((data / "examples" / f"PUNet_{points}_poisson_{level}").glob("*.xyz")):
        mesh = pdflow.read_mesh(data / "PUNet" / "meshes" / "test" / f"{path.stem}.off")
        yield Case(pdflow.read(path), pdflow.read(clean / path.name).points, mesh)


def heldout_cases(data: Path, points: str, level: str) -> Iterator[Case]:
    clean = data / "PUNet" / "pointclouds" / "train" / f"{points}_poisson"
    for name in load_recipe("pdflow").data.holdout:
        cloud = pdflow.read(clean / f"{name}.xyz")
        noisy = add_noise(cloud.points, "gaussian", float(level), seed=0)
        yield Case(cloud.with_points(noisy), cloud.points, None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--model", default="pdflow")
    parser.add_argument("--points", default="10000")
    parser.add_argument("--modes", default="points,resample")
    parser.add_argument("--levels", default=LEVELS)
    parser.add_argument("--iterations", default="auto")
    parser.add_argument("--heldout", action="store_true")
    args = parser.parse_args()

    iterations = args.iterations if args.iterations == "auto" else int(args.iterations)
    cases = heldout_cases if args.heldout else test_cases
    metrics = ("cd", "sq_p2s" if args.heldout else "p2m", "hd")
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    ).stdout.strip()
    print(f"model {Path(args.model).stem}, {args.points} points, iterations {iterations},")
    print(f"commit {commit}, {platform.machine()} {platform.system()}, no random draws")
    print(f" noise      mode   CD e-4 {metrics[1]:>7}  e-4 HD e-3  s/shape passes x parts: shapes")
    model = pdflow.load_model(args.model)
    for level in args.levels.split(","):
        for mode in ("noisy", *args.modes.split(",")):
            rows, seconds, passes = [], 0.0, []
            for cloud, clean, mesh in cases(args.data, args.points, level):
                start = time.perf_counter()
                result = cloud
                if mode != "noisy":
                    done = Denoiser(model, mode=mode, iterations=iterations)(cloud)
                    result = done.cloud
                    passes.append(f"{done.report.iterations}x{done.report.parts}")
                seconds += time.perf_counter() - start
                found = measure(result.points, clean, mesh, metrics=metrics)
                rows.append([found[name] * UNITS[name] for name in metrics])
            cd, surface, hd = np.mean(rows, axis=0)
            counts = ", ".join(f"{p}: {passes.count(p)}" for p in sorted(set(passes)))
            numbers = f"{cd:8.3f} {surface:11.3f} {hd:7.2f} {seconds / len(rows):8.2f}"
            print(f"{level:>6} {mode:>9} {numbers} {counts}", flush=True)


if __name__ == "__main__":
    main()
