"""Fit the rule that finds outliers, and write src/pdflow/pipeline/outliers/rule.json.

    python benchmarks/fit/fit_outliers.py FOLDER [--clouds 500] [--jobs 4]

FOLDER keeps the clouds and rows, so that a run that was stopped goes on. Clouds are cases of
`pdflow.scenes` with seeds that are not held out: half of them objects with outliers (1 to 25 % of
the points), the others all other kinds of scans, a third of these with outliers, too; 1,500 to
40,000 points, noise of 0 to 2.5 %. A row is a point. In each cloud all points of the surface
together weigh SURFACE_WEIGHT times as much as all outliers, because only few of them may be taken.
Mixed pixels do not count.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import fields
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from pdflow.geometry.neighbors import NeighborSearch
from pdflow.pipeline.outliers import judge, share_of
from pdflow.pipeline.outliers.evidence import Described, Surface, second
from pdflow.pipeline.outliers.rule import LIMIT, network_from
from pdflow.scenes.cases import KINDS, make_case
from pdflow.scenes.errors import OUTLIERS, Measured, add_outliers
from pdflow.scenes.fields import log_uniform

RULE = Path(__file__).parents[2] / "src/pdflow/pipeline/outliers/rule.json"
SEED = 4
FIRST_SEED = 10_000
ROUNDS = 3
WITH = tuple(kind for kind in KINDS if KINDS[kind].outliers)
WITHOUT = tuple(kind for kind in KINDS if not KINDS[kind].outliers)
PLACES = ("terrain-tile", "street")
HARD = (*PLACES, "rotating-head", "scan-lines", "street", "strokes", "depth-camera", "fading")
"""Kinds that are more frequent than others, because their points are easily taken for outliers."""
SURFACE_WEIGHT = 15.0
OUTLIER_ROWS, SURFACE_ROWS = 300, 800
HIDDEN, EPOCHS, BATCH, RATE = 32, 8, 4096, 8e-3
DIGITS = 4

Cloud = dict[str, np.ndarray]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--clouds", type=int, default=500)
    parser.add_argument("--jobs", type=int, default=4)
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    numbers = range(asked.clouds)
    networks: list[dict[str, Any]] = []
    with ProcessPoolExecutor(asked.jobs, get_context("spawn")) as pool:
        for _ in range(ROUNDS):
            work = partial(rows_of, asked.folder, networks)
            parts = [rows for rows in pool.map(work, numbers) if rows is not None]
            x, labels, weights = (np.concatenate(column) for column in zip(*parts, strict=True))
            networks.append(fit(x, labels, weights))
    document = {"clouds": asked.clouds, "seed": SEED, "rounds": networks}
    RULE.write_text(json.dumps(document) + "\n", "utf-8")


def rows_of(
    folder: Path, networks: list[dict[str, Any]], number: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """What the next round reads of some points of a cloud, whether they are outliers, weights."""
    torch.set_num_threads(1)
    cloud = kept(folder / f"{number:05d}.npz", partial(make_cloud, number))
    search = NeighborSearch(cloud["points"])
    numbers = kept(folder / f"{number:05d}-described.npz", partial(describe_cloud, search))
    described = Described(search, **numbers)
    rng = np.random.default_rng([SEED, 1, number])
    whole = described.whole()
    if not networks:
        rows, weights = choose(cloud, np.arange(len(described.units)), rng)
        return described.first(whole, rows).astype(np.float32), cloud["outlier"][rows], weights
    odds, _ = judge(described, tuple(map(network_from, networks)))
    found = Surface.of(described.search, odds)
    if not found.is_seen:
        return None
    rows, weights = choose(cloud, found.suspects, rng)
    read = second(described, whole, share_of(odds), odds, found, rows)
    return read.astype(np.float32), cloud["outlier"][rows], weights


def kept(file: Path, make: Callable[[], Cloud]) -> Cloud:
    """What a file holds; made and written if there is none."""
    if not file.exists():
        np.savez(file, **make())
    with np.load(file) as stored:
        return dict(stored)


def describe_cloud(search: NeighborSearch) -> Cloud:
    """The fields of `Described` but for the search, which take longest to compute."""
    described = Described.of(search)
    names = (field.name for field in fields(Described) if field.name != "search")
    return {name: getattr(described, name) for name in names}


def make_cloud(number: int) -> Cloud:
    """Distinct points (M, 3), and (M,) whether each is an outlier or a mixed pixel."""
    rng = np.random.default_rng([SEED, number])
    count = int(log_uniform(rng, 1500, 40_000) if number % 3 else log_uniform(rng, 8000, 20_000))
    share = log_uniform(rng, 0.01, 0.25)
    if number % 10 < 5:
        kind = WITH[int(rng.integers(len(WITH)))]
        level = log_uniform(rng, 0.003, 0.025)
        case = make_case(kind, FIRST_SEED + number, count, level, outlier_share=share)
        points, outlier, mixed = case.noisy, case.outliers, np.zeros(len(case.noisy), bool)
    else:
        kinds = (*WITHOUT, *HARD)
        kind = kinds[int(rng.integers(len(kinds)))]
        level = 0.0 if rng.random() < 0.2 else log_uniform(rng, 0.0005, 0.02)
        metres = None
        if kind in PLACES:
            metres = log_uniform(rng, 0.005, 0.1) if level else 0.0
        case = make_case(kind, FIRST_SEED + number, count, level, sigma=metres)
        measured = Measured(case.noisy, case.sigma, case.outliers)
        if number % 10 >= 8:
            where = tuple(OUTLIERS)[int(rng.integers(len(OUTLIERS)))]
            measured = add_outliers(case.scan, measured, where, share, rng)
        points, added = measured.points, len(measured.points) - len(case.noisy)
        outlier = np.arange(len(points)) >= len(case.noisy)
        mixed = np.concatenate([case.outliers, np.zeros(added, bool)])
    points, rows = np.unique(points, axis=0, return_index=True)
    return {"points": points, "outlier": outlier[rows], "mixed": mixed[rows]}


def choose(
    cloud: Cloud, rows: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Some of the rows, and weights with which they stand for all of them."""
    outlier, surface = cloud["outlier"], ~cloud["outlier"] & ~cloud["mixed"]
    spare = 0 if outlier.any() else OUTLIER_ROWS
    chosen, weights = [], []
    for mask, most, weight in (
        (outlier, OUTLIER_ROWS, 1.0),
        (surface, SURFACE_ROWS + spare, SURFACE_WEIGHT),
    ):
        candidates = rows[mask[rows]]
        some = rng.permutation(candidates)[:most]
        each = weight * len(candidates) / max(len(some), 1) / max(np.count_nonzero(mask), 1)
        chosen.append(some)
        weights.append(np.full(len(some), each))
    return np.concatenate(chosen), np.concatenate(weights)


def fit(x: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> dict[str, Any]:
    """The network that says best which rows are outliers, as the document has it."""
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    mean, std = x.mean(axis=0), x.std(axis=0) + 1e-6
    inputs = torch.tensor(np.clip((x - mean) / std, -LIMIT, LIMIT), dtype=torch.float32)
    targets = torch.tensor(labels, dtype=torch.float32)
    weighed = torch.tensor(weights / weights.mean(), dtype=torch.float32)
    network = nn.Sequential(
        nn.Linear(inputs.shape[1], HIDDEN), nn.ReLU(),
        nn.Linear(HIDDEN, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 1),
    )  # fmt: skip
    optimizer = torch.optim.AdamW(network.parameters(), RATE / 2, weight_decay=1e-4)
    steps = len(inputs) // BATCH
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=EPOCHS * steps + 1)
    for epoch in range(EPOCHS):
        total = 0.0
        for some in torch.randperm(len(inputs)).split(BATCH)[:steps]:
            loss = nn.functional.binary_cross_entropy_with_logits(
                network(inputs[some])[:, 0], targets[some], weighed[some]
            )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            total += float(loss.detach())
        print(f"{len(inputs)} rows, epoch {epoch}: {total / steps:.5f}", flush=True)
    linear = [layer for layer in network if isinstance(layer, nn.Linear)]
    return {
        "mean": rounded(mean),
        "std": rounded(std),
        "weights": [rounded(layer.weight.detach().numpy().T) for layer in linear],
        "bias": [rounded(layer.bias.detach().numpy()) for layer in linear],
    }


def rounded(values: np.ndarray) -> Any:
    return np.round(values.astype(float), DIGITS).tolist()


if __name__ == "__main__":
    main()
