"""Time of sampling, nearest neighbours, normals and rendering, compared with libraries.

    python benchmarks/speed/bench_geometry.py [--quick]

The tools take turns, so that a busy moment of the machine affects all of them; the best time of
each counts. Tools that are not installed are skipped with a reason. Times include building the
tree. fpsample gets float32 and Open3D float64, converted beforehand. Normals are fitted to 16
neighbours; numpy does it with `linalg.eigh` on the neighbours that pdflow finds.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from pdflow.geometry import farthest_point_sampling, knn, sample_mesh
from pdflow.geometry.normals import NEIGHBOURS, fit_normals
from pdflow.mesh import TriangleMesh
from pdflow.provenance import describe_machine, source_version
from pdflow.render import render

SEED = 0
Runs = dict[str, Callable[[], object]]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--quick", action="store_true", help="leave out the clouds of a million points"
    )
    quick = parser.parse_args().quick
    print(describe_machine())
    print(f"commit {source_version()}, seed {SEED}")
    peers = {name: find(module) for name, module in PEERS.items()}
    print()

    rng = np.random.default_rng(SEED)
    surface, solid = sphere(30_000, rng), rng.random((30_000, 3))
    sampling = [("sphere", surface, 10_000), ("cube", solid, 10_000), ("sphere", surface, 30_000)]
    neighbours = [(50_000, 50_000, 16), (50_000, 50_000, 32), (50_000, 150, 1024)]
    if not quick:
        sampling.append(("sphere", sphere(1_000_000, rng), 3_000))
        neighbours += [(1_000_000, 1_000_000, 1), (1_000_000, 1_000_000, 16)]

    print("farthest point sampling, milliseconds")
    for name, points, count in sampling:
        measure(f"{name} {len(points)} -> {count}", sampling_runs(points, count, peers), rounds=7)
    print("\nnearest neighbours, milliseconds")
    for points, queries, k in neighbours:
        cloud = sphere(points, rng) + rng.normal(size=(points, 3)) * 0.01
        wanted = cloud if queries == points else cloud[:queries].copy()
        runs = neighbour_runs(cloud, wanted, k, peers)
        measure(f"{points} points, {queries} queries, k = {k}", runs, rounds=5 if quick else 3)
    print("\nmesh sampling, milliseconds")
    mesh = TriangleMesh(*octahedron())
    methods: Runs = {
        method: lambda method=method: sample_mesh(mesh, 10_000, method)  # type: ignore[misc]
        for method in ("uniform", "even")
    }
    measure("octahedron -> 10000", methods, rounds=5)
    print("\nnormals, milliseconds")
    cloud = sphere(50_000, rng) + rng.normal(size=(50_000, 3)) * 0.01
    normals: Runs = {
        "pdflow": lambda: fit_normals(cloud, cloud),
        "numpy": lambda: eigh_normals(cloud),
        "neighbours alone": lambda: knn(cloud, cloud, NEIGHBOURS),
    }
    measure("50000 points", normals, rounds=5)
    print("\na picture of 800 x 800 pixels, milliseconds")
    with tempfile.TemporaryDirectory() as folder:
        measure("50000 points", picture_runs(sphere(50_000, rng), Path(folder), peers), rounds=3)


PEERS = {
    "scipy": "scipy.spatial",
    "open3d": "open3d",
    "fpsample": "fpsample",
    "matplotlib": "matplotlib.figure",
}


def sampling_runs(points: np.ndarray, count: int, peers: dict[str, ModuleType | None]) -> Runs:
    runs: Runs = {"pdflow": lambda: farthest_point_sampling(points, count)}
    if fpsample := peers["fpsample"]:
        single = points.astype(np.float32)
        for height in (6, 8):
            runs[f"fpsample, height {height}"] = lambda height=height: (  # type: ignore[misc]
                fpsample.bucket_fps_kdline_sampling(single, count, height, start_idx=0)
            )
    if open3d := peers["open3d"]:
        cloud = open3d.geometry.PointCloud(open3d.utility.Vector3dVector(points))
        # A million points would take minutes, and taking all points is a mere copy.
        if count < len(points) <= 100_000:
            runs["open3d"] = lambda: cloud.farthest_point_down_sample(count)
    return runs


def neighbour_runs(
    points: np.ndarray, queries: np.ndarray, k: int, peers: dict[str, ModuleType | None]
) -> Runs:
    runs: Runs = {"pdflow": lambda: knn(points, queries, k)}
    if spatial := peers["scipy"]:
        runs["scipy"] = lambda: spatial.cKDTree(points).query(queries, k, workers=-1)
        if queries is points:
            runs["scipy, sorted by cell"] = lambda: sorted_by_cell(spatial, points, k)
    if open3d := peers["open3d"]:
        data, asked = open3d.core.Tensor(points), open3d.core.Tensor(queries)

        def search() -> None:
            tree = open3d.core.nns.NearestNeighborSearch(data)
            tree.knn_index()
            tree.knn_search(asked, k)

        runs["open3d"] = search
    return runs


def eigh_normals(points: np.ndarray) -> np.ndarray:
    """Normals (M, 3) by numpy: the first eigenvector of the covariance of the neighbours."""
    around = points[knn(points, points, NEIGHBOURS)[1]]
    around -= around.mean(axis=1, keepdims=True)
    return np.linalg.eigh(around.transpose(0, 2, 1) @ around)[1][:, :, 0]


def picture_runs(points: np.ndarray, folder: Path, peers: dict[str, ModuleType | None]) -> Runs:
    runs: Runs = {"pdflow": lambda: render(points, points[:, 0], folder / "ours.png")}
    if figure := peers["matplotlib"]:

        def draw() -> None:
            picture = figure.Figure(figsize=(8, 8), dpi=100)
            axes = picture.add_subplot(projection="3d")
            axes.scatter(*points.T, c=points[:, 0], s=2)
            picture.savefig(folder / "theirs.png")

        runs["matplotlib"] = draw
    return runs


def sorted_by_cell(spatial: ModuleType, points: np.ndarray, k: int) -> tuple[Any, Any]:
    """scipy's tree on points sorted by cells of about eight, with results in the old order."""
    low = points.min(0)
    cell = np.cbrt(np.prod(points.max(0) - low) / len(points) * 8)
    cells = ((points - low) / cell).astype(np.int64)
    rows = np.argsort(np.ravel_multi_index(cells.T.tolist(), cells.max(0) + 1), kind="stable")
    found_distances, found = spatial.cKDTree(points[rows]).query(points[rows], k, workers=-1)
    distances, neighbours = np.empty_like(found_distances), np.empty_like(found)
    distances[rows], neighbours[rows] = found_distances, rows[found]
    return distances, neighbours


def measure(title: str, runs: Runs, rounds: int) -> None:
    """Call all in turn, `rounds` times after a warm-up, and print the best time of each."""
    best = dict.fromkeys(runs, np.inf)
    for turn in range(rounds + 1):
        for name, run in runs.items():
            start = time.perf_counter()
            run()
            if turn:
                best[name] = min(best[name], time.perf_counter() - start)
    print(f"  {title}")
    for name, seconds in best.items():
        print(f"    {name:24} {seconds * 1e3:9.1f}")


def sphere(count: int, rng: np.random.Generator) -> np.ndarray:
    points = rng.normal(size=(count, 3))
    return np.asarray(points / np.linalg.norm(points, axis=1, keepdims=True))


def octahedron() -> tuple[np.ndarray, np.ndarray]:
    corners = np.concatenate([np.eye(3), -np.eye(3)])
    return corners, np.array([[x, y, z] for x in (0, 3) for y in (1, 4) for z in (2, 5)])


def find(module: str) -> ModuleType | None:
    """The module of a tool, or None after printing why it is skipped."""
    package = module.partition(".")[0]
    try:
        found = importlib.import_module(module)
    except (ImportError, OSError) as error:
        print(f"{package}: skipped, {error}")
        return None
    for name in (package, f"{package}-cpu"):
        try:
            print(f"{package} {importlib.metadata.version(name)}")
            break
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


if __name__ == "__main__":
    main()
