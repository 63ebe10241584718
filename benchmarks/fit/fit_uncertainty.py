"""Fit and check the uncertainty of points: of those that claim u, what share lies within u.

    python benchmarks/fit/fit_uncertainty.py DATA --plot docs/images/uncertainty.png

DATA is ScoreDenoise's folder. The weights in `pdflow/pipeline/uncertainty.py` are fitted by
quantile regression to training shapes (without the held-out ones) and made scenes with seeds below
1000, each cloud counting alike. They are checked on the held-out shapes and on
seeds from 1000 on: points are sorted by what they claim, in sigmas, and the share that is off by no
more is printed for each tenth. Off means distance from the surface: from the mesh of a scene, or
from the plane through the nearest of 50,000 clean points of a shape.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from scipy.optimize import minimize

from pdflow.cloud import PointCloud
from pdflow.geometry.neighbors import NeighborSearch
from pdflow.geometry.normals import fit_planes
from pdflow.geometry.triangles import closest_on_mesh
from pdflow.noise import add_noise
from pdflow.pipeline import denoise as pipeline
from pdflow.pipeline import uncertainty
from pdflow.pipeline.denoise import Denoiser
from pdflow.pipeline.restraint import noise_around
from pdflow.provenance import describe_machine, source_version
from pdflow.scenes.cases import make_case
from pdflow.train.folders import read_source
from pdflow.train.recipe import load_recipe
from pdflow.weights import load_model

SEED = 0
KINDS = ("open-sheet", "rods", "sharp-edges", "scan-lines", "fading", "strokes", "sparse-detail")
POINTS, DENSE, SOME = 10_000, 50_000, 500


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--levels", nargs="+", type=float, default=[0.005, 0.01, 0.02, 0.03])
    parser.add_argument("--shapes", type=int, default=8, help="shapes to fit to, and to check on")
    parser.add_argument("--seeds", type=int, default=1, help="scenes of each kind and level")
    parser.add_argument("--weights", nargs=3, type=float, help="check these instead of fitting")
    options = parser.parse_args()
    print(f"{describe_machine()}\ncommit {source_version()}, seed {SEED}\n")
    source = read_source(options.data, (), Path("cache"))
    training, held = source.split(load_recipe("pdflow-fast").data.holdout)
    run = Denoiser(load_model("pdflow"), uncertainty=True)
    if options.weights:
        weights = np.array([np.log(options.weights[0]), *options.weights[1:]])
    else:
        names = sorted(training.clouds)[:: -(-len(training.clouds) // options.shapes)]
        shapes = [training.clouds[name] for name in names]
        weights = fit(measure(run, shapes, options.levels, range(options.seeds)))
    numbers = ", ".join(f"{number:.3f}" for number in (np.exp(weights[0]), *weights[1:]))
    print(f"FACTOR, NOISE_POWER, SPREAD_POWER = {numbers}", flush=True)
    shapes = [held.clouds[name] for name in sorted(held.clouds)[: options.shapes]]
    seeds = range(1000, 1000 + options.seeds)
    checked = measure(run, shapes, options.levels, seeds)
    claims, shares = check(checked, weights)
    print("\n| claimed, in sigmas |", " | ".join(f"{claim:.2f}" for claim in claims), "|")
    print("|---" * (len(claims) + 1) + "|")
    print("| within the claim |", " | ".join(f"{100 * share:.0f} %" for share in shares), "|")
    if options.plot:
        draw(checked, weights, options.plot)


def measure(
    run: Denoiser, shapes: list[list[np.ndarray]], levels: list[float], seeds: range
) -> tuple[np.ndarray, np.ndarray]:
    """Features (n, 3) of some points of clouds: reach, noise, spread; and their errors (n,)."""
    features, errors = [], []
    for level in levels:
        for clouds in shapes:
            clean, dense = (next(c for c in clouds if len(c) == n) for n in (POINTS, DENSE))
            found, points = describe(run, add_noise(clean, "gaussian", level, SEED))
            search = NeighborSearch(dense)
            nearest = dense[search.knn(points, 1)[1][:, 0]]
            normals = fit_planes(search, nearest, 12)[0]
            features.append(found)
            errors.append(np.abs(((points - nearest) * normals).sum(1)))
        for kind in KINDS:
            for seed in seeds:
                case = make_case(kind, seed, 2000 if kind == "sparse-detail" else POINTS, level)
                found, points = describe(run, case.noisy)
                features.append(found)
                errors.append(np.sqrt(closest_on_mesh(points, case.mesh)[0]))
    return np.concatenate(features), np.concatenate(errors)


def describe(run: Denoiser, noisy: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Features (SOME, 3) of some points of a cloud: reach, noise, spread; and the clean points."""
    seen = []
    original = pipeline.point_uncertainty

    def record(surface, passed, settled, held):  # type: ignore[no-untyped-def]
        sigma = noise_around(surface.noise, surface.search.points)
        columns = np.full((len(surface.outlier), 3), np.nan)
        columns[~surface.outlier] = np.stack([passed.reach, sigma, passed.spread], axis=1)
        seen.append(columns[surface.given.place])
        return original(surface, passed, settled, held)

    pipeline.point_uncertainty = record
    done = run(PointCloud(noisy)).cloud
    pipeline.point_uncertainty = original
    rows = np.flatnonzero(np.isfinite(done.attributes["uncertainty"]))
    rows = np.random.default_rng(SEED).permutation(rows)[:SOME]
    return seen[0][rows], done.points[rows]


def logarithms(features: np.ndarray) -> np.ndarray:
    """(n, 3): 1, log of the noise and log of the spread, in reaches."""
    noise, spread = uncertainty.features(*features.T)
    return np.column_stack([np.ones(len(noise)), np.log(noise), np.log(spread)])


def fit(data: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Weights (3,) that the pinball loss at COVERED of the log error is least for."""
    features, errors = data
    design = logarithms(features)
    wanted = np.log(errors / features[:, 0] + 1e-6)

    def loss(weights: np.ndarray) -> float:
        rest = wanted - design @ weights
        over = uncertainty.COVERED
        return float(np.mean(np.where(rest > 0, over * rest, (over - 1) * rest)))

    weights = np.array([-0.5, 0.4, 0.1])
    for _ in range(4):
        weights = minimize(loss, weights, method="Nelder-Mead", options={"maxiter": 2000}).x
    return weights


def check(
    data: tuple[np.ndarray, np.ndarray], weights: np.ndarray, groups: int = 10
) -> tuple[list[float], list[float]]:
    """Median claim in sigmas, and share of points within it, for each tenth by claim."""
    features, errors = data
    claimed = features[:, 0] * np.exp(logarithms(features) @ weights)
    relative = claimed / np.maximum(features[:, 1], 1e-12)
    tenths = np.array_split(np.argsort(relative), groups)
    return (
        [float(np.median(relative[rows])) for rows in tenths],
        [float((errors[rows] <= claimed[rows]).mean()) for rows in tenths],
    )


def draw(data: tuple[np.ndarray, np.ndarray], weights: np.ndarray, path: Path) -> None:
    """Share of points within what they claim, beside the share that is promised."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    claims, shares = check(data, weights, groups=20)
    figure, axes = plt.subplots(figsize=(5, 3.2), layout="constrained")
    axes.axhline(uncertainty.COVERED, color="0.6", linestyle="--", label="promised")
    axes.plot(claims, shares, "o-", markersize=4, label="held-out shapes and scenes")
    axes.set(xscale="log", ylim=(0.5, 1.01), ylabel="share of points within u")
    axes.set_xlabel("claimed uncertainty u, in sigmas of the noise")
    axes.legend(loc="lower right")
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    main()
