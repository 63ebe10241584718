"""Compare two checkouts of pdflow on this machine: bit for bit, or in speed.

    git worktree add ../before d840f34
    python benchmarks/compare_versions.py ../before
    python benchmarks/compare_versions.py ../before --speed 3

Each version runs the same cases in a process of its own: small clouds in every mode, with our
networks and the paper's, noise estimates, and some training steps, all on the CPU. No bits are
stored: they differ between processors, so both versions run here and now.

With --speed both versions take turns, a process each, and the best of each counts: seconds of a run
without parameters, and the peak memory of the process after it.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parents[1]

CASES = {
    "points": {},
    "points, one pass": {"iterations": 1},
    "points, three passes": {"iterations": 3},
    "points, partitions": {"iterations": 2, "partitions": 2},
    "points, seed": {"iterations": 1, "seed": 7},
    "points, ball": {"iterations": 1, "radius": 0.4},
    "points, overlap": {"iterations": 1, "overlap": 1.5},
    "resample": {"mode": "resample"},
    "resample, two passes": {"mode": "resample", "iterations": 2, "partitions": 2},
    "resample, fewer": {"mode": "resample", "points": 700},
    "resample, more": {"mode": "resample", "points": 5200, "iterations": 2},
    "mark": {"outliers": "mark", "iterations": 1, "displacement": True},
    "remove": {"outliers": "remove", "iterations": 1},
}
MODELS = ("pdflow-fast", "pdflow-fbm", "pdflow-lbm", "paper-lcc", "paper-fbm")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("before", type=Path, help="checkout of the other version")
    parser.add_argument("--only", default="", help="cases whose name holds this text")
    parser.add_argument("--speed", type=int, metavar="TURNS", help="compare speed in some turns")
    parser.add_argument("--run", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run and options.speed:
        np.save(options.run, time_runs())
        return
    if options.run:
        run_cases(options.run, options.only)
        return
    if options.speed:
        compare_speed(options.before, options.speed)
        return
    with tempfile.TemporaryDirectory() as folder:
        results = []
        for name, tree in (("before", options.before), ("after", HERE)):
            path = Path(folder) / f"{name}.npz"
            start = time.perf_counter()
            run_version(tree, path, "--only", options.only)
            print(f"{name}: {tree} in {time.perf_counter() - start:.0f} s")
            with np.load(path) as arrays:
                results.append({key: arrays[key] for key in arrays.files})
    sys.exit(report(*results))


def run_version(tree: Path, path: Path, *words: str) -> None:
    """Run this script with the package of a checkout; it writes its results to `path`."""
    environment = {**os.environ, "PYTHONPATH": str(tree.resolve() / "src")}
    command = [sys.executable, __file__, str(tree), "--run", str(path), *words]
    subprocess.run(command, check=True, env=environment)


def compare_speed(before: Path, turns: int) -> None:
    """Print the best seconds and memory of both versions, which take turns."""
    from pdflow.provenance import describe_machine, source_version

    print(f"{describe_machine()}\ncommit {source_version()}, beside {before}")
    best = {tree: np.full((len(RUNS), 2), np.inf) for tree in (before, HERE)}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(turns):
            for tree, figures in best.items():
                run_version(tree, path := Path(folder) / "run.npy", "--speed", "1")
                np.minimum(figures, np.load(path), out=figures)
    print("\n| run | seconds before | after | ratio | peak GiB so far, before | after | ratio |")
    print("|---" * 7 + "|")
    for name, old, new in zip(RUNS, best[before], best[HERE], strict=True):
        cells = [f"{a:.3f} | {b:.3f} | {b / a:.2f}" for a, b in zip(old, new, strict=True)]
        print(f"| {name} | {cells[0]} | {cells[1]} |")


RUNS = {
    "10K, points": (10_000, {}, 5),
    "10K, resample": (10_000, {"mode": "resample"}, 3),
    "100K, points, two passes": (100_000, {"iterations": 2, "partitions": 1}, 2),
    "100K, points": (100_000, {}, 2),
}
"""Points, options and repetitions of each timed run.

In the last run, versions since two scales make three passes through the network where earlier ones
made two; the others ask both for the same work.
"""


def time_runs() -> np.ndarray:
    """Best seconds of each run, and the peak memory of the process after it, in GiB."""
    import resource

    from pdflow import Denoiser, PointCloud, load_model

    model = load_model(known_as("pdflow-fast"))
    rng = np.random.default_rng(0)
    figures = []
    for count, options, repetitions in RUNS.values():
        points = rng.standard_normal((count, 3))
        points /= np.linalg.norm(points, axis=1, keepdims=True)
        points *= 1 + 0.1 * np.sin(5 * points[:, :1]) * np.cos(4 * points[:, 1:2])
        cloud = PointCloud(points + 0.01 * rng.standard_normal(points.shape))
        run, best = Denoiser(model, **known_options(options)), np.inf
        run(cloud[: 2 * 1024])
        for _ in range(repetitions):
            start = time.perf_counter()
            run(cloud)
            best = min(best, time.perf_counter() - start)
        figures.append((best, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20))
    return np.array(figures)


def report(before: dict[str, np.ndarray], after: dict[str, np.ndarray]) -> int:
    """Print what differs; the exit code."""
    different = 0
    for key in sorted(before.keys() | after.keys()):
        if key not in before or key not in after:
            print(f"DIFFERENT {key}: in one version only")
        elif before[key].shape != after[key].shape:
            print(f"DIFFERENT {key}: shape {before[key].shape} became {after[key].shape}")
        elif before[key].tobytes() != after[key].tobytes():
            gap = np.abs(before[key].astype(float) - after[key].astype(float)).max()
            print(f"DIFFERENT {key}: by up to {gap:.3g}")
        else:
            continue
        different += 1
    print(f"{len(before) - different} of {len(before)} arrays are equal to the bit")
    return min(different, 1)


def run_cases(path: Path, only: str) -> None:
    import pdflow

    found: dict[str, np.ndarray] = {}
    clouds = make_clouds()
    for cloud_name, cloud in clouds.items():
        if only in (key := f"estimate/{cloud_name}"):
            noise = pdflow.estimate_noise(cloud.points)
            found[key] = np.array([noise.sigma, noise.relative, noise.spacing])
        for model in MODELS if cloud_name == "torus" else MODELS[:1]:
            for case, options in CASES.items():
                key = f"{model}/{cloud_name}/{case}"
                if only in key:
                    keep(found, key, cloud, model, options)
    for recipe in ("pdflow-fast", "pdflow-lbm", "paper-lcc", "paper-fbm"):
        if only in (key := f"train/{recipe}"):
            for name, tensor in train_steps(recipe).items():
                found[f"{key}/{name}"] = tensor
    np.savez(path, **found)


def known_options(options: dict) -> dict:
    """Options under their names in the version that runs: partitions were parts."""
    from pdflow import Denoiser

    names = Denoiser.__dataclass_fields__
    return {("parts" if k not in names and k == "partitions" else k): v for k, v in options.items()}


def known_as(name: str) -> str:
    """The name of a network in the version that runs: pdflow-fast was the first pdflow."""
    from pdflow.weights import released_models

    return "pdflow" if name == "pdflow-fast" and name not in released_models() else name


def make_clouds() -> dict[str, object]:
    """A noisy torus with duplicates and outliers, two spheres far apart, and few points."""
    from pdflow import PointCloud

    rng = np.random.default_rng(0)
    u, v = rng.uniform(0, 2 * np.pi, (2, 2600))
    ring = 1 + 0.35 * np.cos(v)
    torus = np.stack([ring * np.cos(u), ring * np.sin(u), 0.35 * np.sin(v)], 1)
    torus += 0.02 * rng.standard_normal(torus.shape)
    torus = np.concatenate([torus, torus[:40], rng.uniform(-2, 2, (12, 3))])
    away = rng.standard_normal((900, 3))
    away /= np.linalg.norm(away, axis=1, keepdims=True)
    spheres = np.concatenate([away, 0.3 * away[:400] + [30.0, 0, 0]])
    spheres += 0.05 * rng.standard_normal(spheres.shape)
    spheres += [451_000.0, 5_411_000.0, 120.0]
    few = 0.01 * rng.standard_normal((150, 3)) + rng.random((150, 3)) * [1, 1, 0]
    clouds = {"torus": torus, "spheres": spheres, "few": few}
    return {
        name: PointCloud(points, {"intensity": np.arange(len(points), dtype=np.uint16)})
        for name, points in clouds.items()
    }


def keep(found: dict, key: str, cloud, model: str, options: dict) -> None:
    """Run one case and keep points, attributes and report."""
    from pdflow import Denoiser
    from pdflow.errors import PdflowError

    try:
        done = Denoiser(network(model), **known_options(options))(cloud)
    except PdflowError as error:
        found[f"{key}/refused"] = np.array([len(str(error)) > 0])
        return
    found[f"{key}/points"] = done.cloud.points
    for name, values in done.cloud.attributes.items():
        found[f"{key}/{name}"] = values
    report = done.report
    found[f"{key}/report"] = np.array(
        [report.points, report.points_out, report.outliers, report.noise_before,
         report.noise_after, report.iterations, report.mean_displacement,
         report.max_displacement]
    )  # fmt: skip


def network(name: str):
    import torch

    from pdflow import load_model

    if not name.startswith("paper"):
        return load_model(known_as(name))
    try:
        from pdflow.config import FlowConfig
    except ImportError:
        from pdflow.model import FlowConfig
    from pdflow.model import PDFlow

    torch.manual_seed(1)
    model = PDFlow(FlowConfig(filter=name.removeprefix("paper-")))
    with torch.no_grad():
        patch = torch.randn(2, 256, 3) * 0.2
        model.train().encode(patch, model.graph(patch))
    return model.eval()


def train_steps(name: str) -> dict[str, np.ndarray]:
    """All tensors after three steps of two patches."""
    from dataclasses import replace

    import torch

    from pdflow.train.loop import Trainer
    from pdflow.train.recipe import load_recipe
    from pdflow.train.shapes import Shapes

    recipe = load_recipe(known_as(name))
    recipe = replace(recipe, optim=replace(recipe.optim, batch=4, steps=3, precision="ieee"))
    cloud = np.random.default_rng(3).standard_normal((3000, 3))
    cloud /= np.linalg.norm(cloud, axis=1, keepdims=True)
    generator = torch.Generator().manual_seed(0)
    pool = Shapes({"sphere": [cloud]}).pool(8, recipe.model.patch_points, generator)
    trainer = Trainer(recipe, pool, "cpu")
    trainer.fit()
    return {name: tensor.detach().numpy().copy() for name, tensor in trainer.tensors().items()}


if __name__ == "__main__":
    main()
