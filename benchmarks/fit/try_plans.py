"""Find passes and partitions for a network: CD of held-out training shapes for several plans.

    python benchmarks/fit/try_plans.py DATA --models pdflow other.safetensors \
        --points 10000 50000 --levels 0.01 0.02 0.03 --plans auto 1x1 2x1 2x2 2x4

DATA is ScoreDenoise's folder. "2x4" means two passes, the first on four partitions. Printed are CD
(e-4) of every held-out shape and their geometric mean, by which plans are compared: a plain mean is
the CD of the hardest shape.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from pdflow.cloud import PointCloud
from pdflow.metrics import sq_chamfer
from pdflow.noise import add_noise
from pdflow.pipeline.denoise import Denoiser
from pdflow.provenance import describe_machine, source_version
from pdflow.train.folders import read_source
from pdflow.train.recipe import load_recipe
from pdflow.weights import load_model

SEED = 0


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--models", nargs="+", default=["pdflow"])
    parser.add_argument("--points", nargs="+", type=int, default=[10_000])
    parser.add_argument("--levels", nargs="+", type=float, default=[0.01, 0.02, 0.03])
    parser.add_argument("--plans", nargs="+", default=["auto", "1x1", "2x1"])
    parser.add_argument("--mode", default="resample")
    options = parser.parse_args()
    print(f"{describe_machine()}\ncommit {source_version()}, seed {SEED}, mode {options.mode}\n")
    holdout = load_recipe("pdflow-fast").data.holdout
    held = read_source(options.data, (), Path("cache")).split(holdout)[1]
    names = sorted(held.clouds)
    print(f"| points | noise | model | plan | {' | '.join(names)} | geometric mean |")
    print("|---" * (len(names) + 5) + "|")
    for count in options.points:
        clouds = {name: _of_size(held.clouds[name], count) for name in names}
        for level in options.levels:
            noisy = {name: add_noise(clouds[name], "gaussian", level, SEED) for name in names}
            for file in options.models:
                for plan in options.plans:
                    run = Denoiser(load_model(file), mode=options.mode, **_plan(plan))
                    cds = [
                        1e4 * sq_chamfer(run(PointCloud(noisy[name])).cloud.points, clouds[name])
                        for name in names
                    ]
                    mean = np.exp(np.mean(np.log(cds)))
                    row = [count, f"{level:g}", Path(file).stem, plan, *(f"{cd:.3f}" for cd in cds)]
                    print("|", " | ".join(map(str, row)), f"| {mean:.3f} |", flush=True)


def _of_size(clouds: list[np.ndarray], count: int) -> np.ndarray:
    return next(cloud for cloud in clouds if len(cloud) == count)


def _plan(text: str) -> dict[str, int | str]:
    if text == "auto":
        return {}
    passes, partitions = text.split("x")
    return {"iterations": int(passes), "partitions": int(partitions)}


if __name__ == "__main__":
    main()
