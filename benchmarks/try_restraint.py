"""What the bound on moves costs where there is nothing to protect: CD of held-out training shapes.

    python benchmarks/try_restraint.py DATA --levels 0.01 0.02 0.03 --sigmas 3 4 5 6

DATA is ScoreDenoise's folder. Printed are the geometric mean of CD (e-4) without a bound, and for
each bound (in sigmas of the estimated noise) its change and the share of points that it stopped.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from pdflow.cloud import PointCloud
from pdflow.geometry.tangential import limit_motion
from pdflow.metrics import sq_chamfer
from pdflow.noise import add_noise
from pdflow.noise.estimate import estimate_noise
from pdflow.pipeline.denoise import Denoiser
from pdflow.pipeline.restraint import noise_around
from pdflow.provenance import describe_machine, source_version
from pdflow.train.folders import read_source
from pdflow.train.recipe import load_recipe
from pdflow.weights import load_model

SEED = 0


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--points", type=int, default=10_000)
    parser.add_argument("--levels", nargs="+", type=float, default=[0.005, 0.01, 0.02, 0.03])
    parser.add_argument("--sigmas", nargs="+", type=float, default=[3, 4, 5, 6])
    options = parser.parse_args()
    print(f"{describe_machine()}\ncommit {source_version()}, seed {SEED}, mode points\n")
    holdout = load_recipe("pdflow-fast").data.holdout
    held = read_source(options.data, (), Path("cache")).split(holdout)[1]
    clouds = [cloud for cloud in held.in_order() if len(cloud) == options.points]
    print("| noise | no bound |", " | ".join(f"{bound:g} sigma" for bound in options.sigmas), "|")
    print("|---" * (len(options.sigmas) + 2) + "|")
    run = Denoiser(load_model("pdflow"), max_move=np.inf)
    for level in options.levels:
        rows = [_row(run, clean, level, options.sigmas) for clean in clouds]
        free = np.array([cd for cd, _ in rows])
        cells = []
        for column in range(len(options.sigmas)):
            cds, stopped = np.array([bounded[column] for _, bounded in rows]).T
            change = np.exp(np.log(cds / free).mean()) - 1
            cells.append(f"{100 * change:+.3f} %, {100 * stopped.mean():.3f} % stopped")
        print(
            f"| {100 * level:g} % | {np.exp(np.log(free).mean()):.4f} |",
            " | ".join(cells),
            "|",
            flush=True,
        )


def _row(
    run: Denoiser, clean: np.ndarray, level: float, sigmas: list[float]
) -> tuple[float, list[tuple[float, float]]]:
    """CD without a bound; CD and share of stopped points with each."""
    noisy = add_noise(clean, "gaussian", level, SEED)
    moved = run(PointCloud(noisy)).cloud.points
    sigma = noise_around(estimate_noise(noisy), noisy)
    bounded = []
    for bound in sigmas:
        limited, stopped = limit_motion(noisy, moved, bound * sigma)
        bounded.append((1e4 * sq_chamfer(limited, clean), float(stopped.mean())))
    return 1e4 * sq_chamfer(moved, clean), bounded


if __name__ == "__main__":
    main()
