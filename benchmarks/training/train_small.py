"""What `pdflow-small` reaches on a CPU: train on made meshes, measure on held-out ones.

    python benchmarks/training/train_small.py runs/small               # trains, measures
    python benchmarks/training/train_small.py runs/small --minutes 10  # for ten minutes

Meshes are made from `pdflow.scenes`, two of each kind of object; those that are measured have seeds
that nothing is trained on. The table has the mean over shapes of each error, of the noisy cloud and
of the denoised one, and the factor between them. The folder's log.jsonl has the curve.
"""

from __future__ import annotations

import argparse
import sys
from itertools import cycle, islice
from pathlib import Path

import numpy as np

from pdflow import Denoiser, PointCloud, load_model, write_mesh
from pdflow.cli.main import main as pdflow
from pdflow.geometry import sample_mesh
from pdflow.mesh import TriangleMesh
from pdflow.metrics import measure
from pdflow.noise import add_noise
from pdflow.scenes.cases import HELD_OUT_SEEDS
from pdflow.scenes.surfaces import SURFACES
from pdflow.weights import find_model, read_provenance

PLACES = ("terrain", "room")
TRAINED, HELD_OUT = 30, 15
POINTS = 10_000
LEVELS = (0.01, 0.02, 0.03)


def shapes(first: int, count: int) -> dict[str, TriangleMesh]:
    """Objects of all kinds in turn, with seeds from `first` on."""
    kinds = cycle(kind for kind in SURFACES if kind not in PLACES)
    return {
        f"{kind}-{seed}": SURFACES[kind](np.random.default_rng(seed)).mesh
        for seed, kind in enumerate(islice(kinds, count), first)
    }


def train(folder: Path, minutes: float | None) -> None:
    """Train in a folder, or go on there."""
    meshes = folder / "meshes"
    meshes.mkdir(parents=True, exist_ok=True)
    for name, mesh in shapes(0, TRAINED).items():
        write_mesh(meshes / f"{name}.ply", mesh)
    words = ["train", "--data", str(meshes), "--recipe", "pdflow-small", "-o", str(folder)]
    words += ["--device", "cpu"] + (["--minutes", str(minutes), "--anneal"] if minutes else [])
    if code := pdflow(words):
        sys.exit(code)


def table(weights: Path) -> None:
    """Print the errors on held-out shapes."""
    denoiser, origin = Denoiser(load_model(weights)), read_provenance(weights)
    print({name: origin.get(name) for name in ("steps", "patches", "seed", "commit", "device")})
    print("| noise | CD e-4 noisy | denoised | factor | P2M e-4 noisy | denoised | factor |")
    print("|---|---|---|---|---|---|---|")
    for level in LEVELS:
        errors = []
        for seed, mesh in enumerate(shapes(HELD_OUT_SEEDS, HELD_OUT).values()):
            clean, _ = sample_mesh(mesh, POINTS, seed=seed)
            noisy = add_noise(clean, "gaussian", level, seed)
            denoised = denoiser(PointCloud(noisy)).cloud.points
            for points in (noisy, denoised):
                found = measure(points, clean, mesh, metrics=("cd", "p2m"))
                errors.append([found["cd"], found["p2m"]])
        (cd, p2m), (cd_after, p2m_after) = 1e4 * np.reshape(errors, (-1, 2, 2)).mean(0)
        figures = (cd, cd_after, cd / cd_after, p2m, p2m_after, p2m / p2m_after)
        print(f"| {level:.0%} | {' | '.join(f'{figure:.2f}' for figure in figures)} |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--measure-only", action="store_true")
    parser.add_argument(
        "--shipped", action="store_true", help="measure the shipped network instead"
    )
    given = parser.parse_args()
    if not (given.measure_only or given.shipped):
        train(given.folder, given.minutes)
    table(find_model("pdflow") if given.shipped else given.folder / "model.safetensors")
