"""Fit the rule that blends a fine and a coarse first pass, and compare it with others by folds.

    python benchmarks/fit/fit_scales.py DATA FOLDER [--model pdflow] [--device cuda] [--jobs 6]

DATA is ScoreDenoise's folder. FOLDER keeps both answers for every cloud, so that a run that was
stopped goes on. Clouds are all 40 training shapes at 10K and 50K points with about 1 to 3 % noise,
and made scans with seeds below 900,000. The noise is estimated, as in a run. The rule minimises the
squared distance from the surface after the second pass, relative to that of the better answer, so
that each cloud counts alike. Shapes are judged by rules that were fitted without them (5 folds);
the shipped rule, src/pdflow/pipeline/scales.json, is fitted to all.
"""

from __future__ import annotations

import argparse
import json
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from pdflow.geometry.neighbors import NeighborSearch
from pdflow.geometry.normals import fit_planes
from pdflow.geometry.triangles import closest_on_mesh
from pdflow.mesh import TriangleMesh
from pdflow.metrics import sq_chamfer
from pdflow.noise.estimate import NoiseEstimate, estimate_noise
from pdflow.pipeline import scales
from pdflow.pipeline.denoise import Denoiser
from pdflow.pipeline.outliers.rule import LIMIT, network_from
from pdflow.pipeline.passes import Pass, Passes
from pdflow.pipeline.plan import Plan, believed, noise_over_radius
from pdflow.pipeline.restraint import noise_around
from pdflow.provenance import describe_machine, source_version
from pdflow.scenes.cases import make_case
from pdflow.train.folders import read_source
from pdflow.weights import load_model

RULE = Path(__file__).parents[2] / "src/pdflow/pipeline/scales.json"
SEED, FOLDS, COARSE = 0, 5, 2
LEVELS = {10_000: (0.02, 0.03), 50_000: (0.01, 0.02, 0.03)}
JITTER = 0.15
KINDS = (
    "open-sheet",
    "sharp-edges",
    "rods",
    "scan-lines",
    "strokes",
    "holes",
    "fading",
    "terrain-tile",
)
SCANS, SCAN_POINTS, FIRST_SEED = ((1, 0.02), (2, 0.03), (3, 0.04)), 20_000, 880_000
LIMIT_TODAY = (0.15, 0.2)
"""What `partition_thresholds` were before there were two scales."""
FARTHEST = 6.0
"""Sigmas from the surface beyond which a point counts no more."""
SOME, HIDDEN, STEPS, BATCH, RATE, DIGITS = 4000, (32, 16), 1500, 4096, 8e-3, 4

Job = tuple[int, str, float]
Network = dict[str, Any]
Scores = dict[str, float]
Rows = tuple[np.ndarray, np.ndarray]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--model", default="pdflow")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--shapes", type=int, help="fewer shapes, for a try")
    parser.add_argument("--points", type=int, nargs="+", default=sorted(LEVELS))
    parser.add_argument("--quick", action="store_true", help="without the second table")
    parser.add_argument("--write", action="store_true", help="replace the shipped rule")
    asked = parser.parse_args()
    torch.set_num_threads(1)  # small layers: a second thread costs more than it brings
    asked.folder.mkdir(parents=True, exist_ok=True)
    print(f"{describe_machine()}\ncommit {source_version()}, seed {SEED}, {asked.model}\n")
    names = sorted(read_source(asked.data, (), Path("cache")).clouds)[: asked.shapes]
    jobs = [(n, name, level) for n in asked.points for level in LEVELS[n] for name in names]
    jobs += [(SCAN_POINTS, f"{kind} {seed}", level) for seed, level in SCANS for kind in KINDS]
    work = partial(answer, asked.data, asked.folder, asked.model, asked.device)
    with ProcessPoolExecutor(asked.jobs, get_context("spawn")) as pool:
        rows = list(pool.map(work, jobs))
        chosen, shipped = fit_folds(jobs, rows)
        print("Squared distance from the surface if the answers after two passes were blended\n")
        print_table(jobs, [blend_errors(*row, net) for row, net in zip(rows, chosen, strict=True)])
        if not asked.quick:
            print("\nCD if the answers of the first pass are blended, then the second pass\n")
            judge_one = partial(judge, asked.folder, asked.model, asked.device)
            print_table(jobs, list(pool.map(judge_one, jobs, chosen)))
    if asked.write:
        document = {"model": asked.model, "seed": SEED, "clouds": len(jobs), **shipped}
        RULE.write_text(json.dumps(document) + "\n", "utf-8")


def fit_folds(jobs: list[Job], rows: list[Rows]) -> tuple[list[Network], Network]:
    """For each cloud a network that was fitted without its shape; and one fitted to all clouds."""
    names = sorted({name for count, name, _ in jobs if count != SCAN_POINTS})
    fold = {name: number % FOLDS for number, name in enumerate(names)}
    folds = [fold.get(name, number % FOLDS) for number, (_, name, _) in enumerate(jobs)]
    networks = [
        fit([row for row, own in zip(rows, folds, strict=True) if own != number])
        for number in range(FOLDS)
    ]
    return [networks[own] for own in folds], fit(rows)


def answer(data: Path, folder: Path, model: str, device: str, job: Job) -> Rows:
    """What the rule reads of some points of a cloud (n, C), and the ways (n, 2, 3) from the surface
    to where the fine and the coarse answer lead them, in sigmas."""
    file = file_of(folder, job)
    if not file.exists():
        np.savez(file, **answers(data, model, device, job))
    with np.load(file) as kept:
        stored = dict(kept)
    rows = np.random.default_rng(SEED).permutation(len(stored["noisy"]))[:SOME]
    numbers = describe(stored, rows)
    off = [offsets(stored, stored[f"{name}2"][rows]) for name in ("fine", "coarse")]
    return numbers, np.stack(off, axis=1) / stored["sigma"][rows, None, None]


def answers(data: Path, model: str, device: str, job: Job) -> dict[str, np.ndarray]:
    """A cloud: clean and noisy, its noise, and what both scales make of it in each pass."""
    count, name, base = job
    seed = [SEED, count, round(1000 * base), *name.encode()]
    level = base * np.exp(np.random.default_rng(seed).uniform(-JITTER, JITTER))
    mesh = {}
    if count == SCAN_POINTS:
        kind, number = name.split()
        case = make_case(kind, FIRST_SEED + int(number), count, level)
        clean, noisy = case.clean, case.noisy
        mesh = {"vertices": case.mesh.vertices, "faces": case.mesh.faces}
    else:
        clean = next(c for c in shapes(data)[name] if len(c) == count)
        noisy = clean + level * np.random.default_rng(seed).normal(size=clean.shape)
    run, search = passes(model, device), NeighborSearch(noisy)
    noise = believed(estimate_noise(search))
    found = {
        "clean": clean, "noisy": noisy, "sigma": noise_around(noise, noisy), **mesh,
        "level": np.array([noise.sigma, noise_over_radius(search, noise, run.cutting.size)]),
        "queries": noise.queries, "local": noise.local,
    }  # fmt: skip
    for label, partitions in (("fine", 1), ("coarse", COARSE)):
        first = Pass(run, search, noise, Plan(2, partitions), 0).moved().points
        found[f"{label}1"], found[f"{label}2"] = first, second(run, first, noise)
    return found


def judge(folder: Path, model: str, device: str, job: Job, network: Network) -> Scores:
    """CD after two passes, by rule."""
    with np.load(file_of(folder, job)) as kept:
        stored = dict(kept)
    run, (noisy, fine, coarse, _) = passes(model, device), pair(stored)
    sigma, ratio = stored["level"]
    noise = NoiseEstimate(sigma, sigma, sigma, True, stored["queries"], stored["local"])
    numbers = describe(stored, np.arange(len(noisy)))
    shift = coarse - fine.points
    parts = 1 if ratio <= LIMIT_TODAY[1] else int(np.ceil((ratio / LIMIT_TODAY[0]) ** 2))
    results = {"one partition": stored["fine2"], "two partitions": stored["coarse2"]}
    results["as before"] = results["one partition"]
    if parts > 1:
        search = NeighborSearch(noisy)
        first = Pass(run, search, noise, Plan(2, parts), 0).moved().points
        results["as before"] = second(run, first, noise)
    blends = {
        "mean": 0.5 * shift,
        "by disagreement": by_disagreement(numbers) * shift,
        "learned": weights_of(numbers, network) * shift,
    }
    for name, part in blends.items():
        results[name] = second(run, fine.points + part, noise)
    return {name: sq_chamfer(points, stored["clean"]) for name, points in results.items()}


def blend_errors(numbers: np.ndarray, ways: np.ndarray, network: Network) -> Scores:
    """Mean squared distance from the surface, by rule, of points with ways (n, 2, 3) from it."""
    fine, coarse = ways[:, 0], ways[:, 1]
    weight = weights_of(numbers, network)
    blends = {
        "one partition": fine,
        "two partitions": coarse,
        "mean": 0.5 * (fine + coarse),
        "by disagreement": fine + by_disagreement(numbers) * (coarse - fine),
        "learned": fine + weight * (coarse - fine),
        "better of both at each point": np.where(
            (np.square(fine).sum(1) < np.square(coarse).sum(1))[:, None], fine, coarse
        ),
    }
    return {name: float(np.square(way).sum(1).mean()) for name, way in blends.items()}


def weights_of(numbers: np.ndarray, network: Network) -> np.ndarray:
    """(n, 1): weights of the coarse answer that a network asks for."""
    return scales.coarse_weight(numbers, network_from(network))[:, None]


def by_disagreement(numbers: np.ndarray) -> np.ndarray:
    """(n, 1): weights that fall where both answers are farther apart than noise explains."""
    apart = np.exp(numbers[:, scales.APART]) * np.sqrt(scales.NEIGHBOURS)
    return np.asarray(1 / (1 + apart**2))[:, None]


def fit(parts: list[Rows]) -> Network:
    """A network from the numbers of points to the log odds of the coarse answer."""
    torch.manual_seed(SEED)
    x = np.concatenate([numbers for numbers, _ in parts])
    mean, std = x.mean(0), np.maximum(x.std(0), 1e-3)
    inputs = torch.tensor(np.clip((x - mean) / std, -LIMIT, LIMIT), dtype=torch.float32)
    ways = torch.tensor(np.concatenate([way for _, way in parts]), dtype=torch.float32)
    ways = ways.clamp(-FARTHEST, FARTHEST)
    better = [min(np.square(way).sum(2).mean(0)) for _, way in parts]
    counts = torch.tensor([len(way) for _, way in parts])
    unit = torch.repeat_interleave(torch.tensor(np.array(better), dtype=torch.float32), counts)
    a, b = HIDDEN
    net = nn.Sequential(
        nn.Linear(x.shape[1], a), nn.ReLU(), nn.Linear(a, b), nn.ReLU(), nn.Linear(b, 1)
    )  # fmt: skip
    optimiser = torch.optim.Adam(net.parameters(), RATE)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, RATE, STEPS)
    for _ in range(STEPS):
        some = torch.randint(len(inputs), (BATCH,))
        weight = torch.sigmoid(net(inputs[some]))
        blended = (1 - weight) * ways[some, 0] + weight * ways[some, 1]
        loss = (blended.square().sum(1) / unit[some]).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
    layers = [layer for layer in net if isinstance(layer, nn.Linear)]
    return {
        "mean": np.round(mean, DIGITS).tolist(),
        "std": np.round(std, DIGITS).tolist(),
        "weights": [np.round(layer.weight.detach().numpy().T, DIGITS).tolist() for layer in layers],
        "bias": [np.round(layer.bias.detach().numpy(), DIGITS).tolist() for layer in layers],
    }


def print_table(jobs: list[Job], judged: list[Scores]) -> None:
    """Geometric means relative to one partition; in brackets the worst cloud."""
    names = list(judged[0])[1:]
    groups = sorted({(count, level if count != SCAN_POINTS else 0) for count, _, level in jobs})
    print("| points, noise |", " | ".join(names), "|")
    print("|---" * (len(names) + 1) + "|")
    for count, level in groups:
        some = [
            scores for (n, _, lv), scores in zip(jobs, judged, strict=True)
            if n == count and level in (0, lv)
        ]  # fmt: skip
        cells = []
        for name in names:
            ratios = np.array([scores[name] / scores["one partition"] for scores in some])
            cells.append(f"{np.exp(np.log(ratios).mean()):.3f} ({ratios.max():.2f})")
        what = f"{count // 1000}K, {100 * level:g} %" if level else "made scans"
        print(f"| {what} |", " | ".join(cells), "|", flush=True)


def second(run: Passes, first: np.ndarray, noise: NoiseEstimate) -> np.ndarray:
    """Points after the second of two passes."""
    return Pass(run, NeighborSearch(first), noise, Plan(2, 1), 1).moved().points


def pair(
    stored: dict[str, np.ndarray],
) -> tuple[np.ndarray, NeighborSearch, np.ndarray, np.ndarray]:
    """What `describe_scales` reads."""
    return stored["noisy"], NeighborSearch(stored["fine1"]), stored["coarse1"], stored["sigma"]


def describe(stored: dict[str, np.ndarray], rows: np.ndarray) -> np.ndarray:
    """(Q, C): what the rule reads of some rows (Q,) of a cloud."""
    both = pair(stored)
    return scales.describe_scales(*both, rows, scales.Regions.of(*both))


def offsets(stored: dict[str, np.ndarray], points: np.ndarray) -> np.ndarray:
    """The ways (n, 3) from the surface to points (n, 3): from the mesh, or from the plane through
    the nearest clean point."""
    if "faces" in stored:
        return (
            points - closest_on_mesh(points, TriangleMesh(stored["vertices"], stored["faces"]))[2]
        )
    search = NeighborSearch(stored["clean"])
    nearest = search.points[search.knn(points, 1)[1][:, 0]]
    normals = fit_planes(search, nearest, 12)[0]
    return np.asarray(((points - nearest) * normals).sum(1, keepdims=True) * normals)


def file_of(folder: Path, job: Job) -> Path:
    count, name, level = job
    return folder / f"{count}-{name.replace(' ', '-')}-{level:g}.npz"


@cache
def passes(model: str, device: str) -> Passes:
    torch.set_num_threads(1)
    return Denoiser(load_model(model, device)).passes()


@cache
def shapes(data: Path) -> dict[str, list[np.ndarray]]:
    return read_source(data, (), Path("cache")).clouds


if __name__ == "__main__":
    main()
