"""Tangential motion of our network relative to normal motion, and its effect on CD.

    python benchmarks/accuracy/bench_tangential.py DATA

DATA is ScoreDenoise's folder. Measured are its held-out training shapes, which are evenly sampled,
at several noise levels, random samples of the same shapes, and simulated LiDAR scans of some
bodies. CD (e-4) is given with unlimited tangential motion, and as `pdflow denoise` limits it. The
limit `EXPLAINED` was chosen with this script.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import numpy as np
import trimesh
from numpy.typing import NDArray

from pdflow.bench.tables.lidar import AZIMUTHS, BEAMS
from pdflow.cloud import PointCloud
from pdflow.geometry import tangential
from pdflow.geometry.neighbors import NeighborSearch
from pdflow.io import read_mesh
from pdflow.mesh import TriangleMesh
from pdflow.metrics import sq_chamfer
from pdflow.noise.lidar import simulate_lidar
from pdflow.pipeline import denoise
from pdflow.provenance import source_version
from pdflow.train.folders import read_source
from pdflow.train.recipe import load_recipe
from pdflow.weights import load_model

SEED = 0
LEVELS = (0.0025, 0.005, 0.01, 0.02, 0.03)
GEAR = Path(__file__).parents[2] / "examples" / "gear.off"
Cloud = NDArray[np.float64]


def cases(data: Path) -> Iterator[tuple[str, Cloud, Cloud]]:
    """Name, noisy and clean cloud."""
    rng = np.random.default_rng(SEED)
    shapes = read_source(data, (), Path("cache")).split(load_recipe("pdflow-fast").data.holdout)[1]
    for name, clouds in shapes.clouds.items():
        small, large = min(clouds, key=len), max(clouds, key=len)
        for level in LEVELS:
            yield f"{name}, even, {level:g}", small + level * rng.normal(size=small.shape), small
        some = large[rng.permutation(len(large))[: len(small)]]
        for level in (0.005, 0.01):
            yield f"{name}, random, {level:g}", some + level * rng.normal(size=some.shape), some
    bodies = {
        "torus": trimesh.creation.torus(1, 0.35),
        "box": trimesh.creation.box((1, 0.7, 0.5)),
        "capsule": trimesh.creation.capsule(1, 0.4),
    }
    meshes = {n: TriangleMesh(np.array(b.vertices), np.array(b.faces)) for n, b in bodies.items()}
    for name, mesh in (meshes | {"gear": read_mesh(GEAR)}).items():
        size = {"beams": BEAMS, "azimuths": AZIMUTHS, "seed": SEED}
        clean = simulate_lidar(mesh, level=0.0, range_step=0.0, angle_step=0.0, **size).points
        yield f"{name}, LiDAR", simulate_lidar(mesh, level=0.01, **size).points, clean


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", type=Path)
    given = parser.parse_args()
    print(f"commit {source_version()}, seed {SEED}\n")
    print("| cloud | along / across | CD, all movement | CD, as shipped |\n|---|---|---|---|")
    run = denoise.Denoiser(load_model("pdflow"))
    for name, noisy, clean in cases(given.data):
        seen: list[tuple[Cloud, NeighborSearch]] = []

        def record(noisy: Cloud, search: NeighborSearch, seen: list = seen) -> Cloud:
            seen.append((noisy, search))
            return search.points

        with mock.patch.object(denoise, "limit_tangential_motion", record):
            free = run(PointCloud(noisy)).cloud.points
        kept = run(PointCloud(noisy)).cloud.points
        before, search = seen[0]
        after = search.points
        along = tangential._tangential(before, after, search)
        across = after - before - along
        ratio = np.sqrt((along**2).sum() / (across**2).sum())
        cds = (1e4 * sq_chamfer(each, clean) for each in (free, kept))
        print(f"| {name} | {ratio:.2f} |", *(f"{cd:.3f} |" for cd in cds), flush=True)


if __name__ == "__main__":
    main()
