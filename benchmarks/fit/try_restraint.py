"""What restraint costs where there is nothing to protect, and what it protects on tiles.

    python benchmarks/fit/try_restraint.py DATA --levels 0.01 0.02 0.03 \
        --sigmas 3 4 5 6 --seeds 0 1 2

DATA is ScoreDenoise's folder. Printed are

- for held-out training shapes, the geometric mean of CD (e-4) without restraint, and for each bound
  (in sigmas of the estimated noise) its change and the share of points that it stopped;
- for these shapes and scenes of ordinary surfaces, the largest share of points of a cloud that was
  held back because it seemed to lie on no surface;
- for tiles with trees and wires, moves in sigmas, and errors of ground and buildings over those of
  the input, with and without restraint.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from pdflow.cloud import PointCloud
from pdflow.geometry.tangential import limit_motion
from pdflow.geometry.triangles import closest_on_mesh
from pdflow.metrics import sq_chamfer
from pdflow.noise import add_noise
from pdflow.noise.estimate import estimate_noise
from pdflow.pipeline.denoise import Denoiser
from pdflow.pipeline.restraint import noise_around
from pdflow.provenance import describe_machine, source_version
from pdflow.scenes.cases import Case, make_case
from pdflow.scenes.surface import BUILDING, GROUND, TREE, WIRE
from pdflow.train.folders import read_source
from pdflow.train.recipe import load_recipe
from pdflow.weights import load_model

SEED = 0
KINDS = ("open-sheet", "plates", "rods", "sharp-edges", "scan-lines", "fading", "strokes")
TILES = ("terrain-tile", "street")
METRES = 0.025
"""Noise of tiles."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--points", type=int, default=10_000)
    parser.add_argument("--levels", nargs="+", type=float, default=[0.005, 0.01, 0.02, 0.03])
    parser.add_argument("--sigmas", nargs="+", type=float, default=[3, 4, 5, 6])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    options = parser.parse_args()
    print(f"{describe_machine()}\ncommit {source_version()}, seed {SEED}, mode points\n")
    holdout = load_recipe("pdflow-fast").data.holdout
    held = read_source(options.data, (), Path("cache")).split(holdout)[1]
    clouds = [cloud for cloud in held.in_order() if len(cloud) == options.points]
    model = load_model("pdflow")
    free, restrained = Denoiser(model, max_move=np.inf), Denoiser(model)
    _bounds(free, clouds, options.levels, options.sigmas)
    print("\n| noise | held-out shapes |", " | ".join(KINDS), "|")
    print("|---" * (len(KINDS) + 2) + "|")
    for level in options.levels:
        noisy = [[add_noise(clean, "gaussian", level, SEED) for clean in clouds]]
        noisy += [[make_case(k, s, 10_000, level).noisy for s in options.seeds] for k in KINDS]
        shares = [max(_share_off(restrained, cloud) for cloud in group) for group in noisy]
        cells = " | ".join(f"{100 * share:.2f} %" for share in shares)
        print(f"| {100 * level:g} % | {cells} |", flush=True)
    print(
        "\n| tile | restraint | noise | held back | median move of trees | wires | largest move "
        "| ground | buildings |"
    )
    print("|---" * 9 + "|")
    for kind in TILES:
        for seed in options.seeds:
            tile = make_case(kind, seed, 20_000, sigma=METRES)
            for name, run in (("none", free), ("default", restrained)):
                print(f"| {kind} {seed} | {name} | {_tile_row(run, tile)} |", flush=True)


def _bounds(
    run: Denoiser, clouds: list[np.ndarray], levels: list[float], sigmas: list[float]
) -> None:
    """Print what bounds do to shapes."""
    print("| noise | no bound |", " | ".join(f"{bound:g} sigma" for bound in sigmas), "|")
    print("|---" * (len(sigmas) + 2) + "|")
    for level in levels:
        rows = [_row(run, clean, level, sigmas) for clean in clouds]
        free = np.array([cd for cd, _ in rows])
        cells = []
        for column in range(len(sigmas)):
            cds, stopped = np.array([bounded[column] for _, bounded in rows]).T
            change = np.exp(np.log(cds / free).mean()) - 1
            cells.append(f"{100 * change:+.3f} %, {100 * stopped.mean():.3f} % stopped")
        mean = np.exp(np.log(free).mean())
        print(f"| {100 * level:g} % | {mean:.4f} | {' | '.join(cells)} |", flush=True)


def _share_off(run: Denoiser, noisy: np.ndarray) -> float:
    return run(PointCloud(noisy)).report.held_back["no_surface"] / len(noisy)


def _tile_row(run: Denoiser, tile: Case) -> str:
    """Cells of a row about a tile."""
    done = run(PointCloud(tile.noisy))
    sigma = np.sqrt(np.nanmean(tile.sigma**2))
    moves = np.linalg.norm(done.cloud.points - tile.noisy, axis=1) / sigma
    after, before = (closest_on_mesh(p, tile.mesh)[0] for p in (done.cloud.points, tile.noisy))
    cells = [f"{done.report.noise_before / sigma:.2f} of true"]
    cells.append(f"{done.report.held_back['bound']} + {done.report.held_back['no_surface']}")
    for code in (TREE, WIRE):
        mine = tile.classes == code
        cells.append(f"{np.median(moves[mine]):.2f}" if mine.any() else "-")
    cells.append(f"{moves.max():.2f}")
    for code in (GROUND, BUILDING):
        mine = (tile.classes == code) & ~tile.outliers
        ratio = np.sqrt(after[mine].mean() / before[mine].mean()) if mine.any() else np.nan
        cells.append(f"{ratio:.3f}")
    return " | ".join(cells)


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
