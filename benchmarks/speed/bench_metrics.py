"""Time of every metric on 50K points and a mesh of 20480 faces, compared with libigl.

    python benchmarks/speed/bench_metrics.py

Best of three runs each, after one that compiles. The last line computes all metrics together,
except uniformity and EMD (which is limited to 4096 points); the target is 2 s on 2 cores.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from scipy.spatial import ConvexHull

from pdflow.geometry.triangles import cast_rays, closest_on_mesh, faces_to_points
from pdflow.mesh import TriangleMesh
from pdflow.metrics import METRICS, measure
from pdflow.provenance import describe_machine, source_version

POINTS = 50_000
SEED = 0


def bumpy_sphere() -> TriangleMesh:
    """A sphere with bumps, from an icosahedron whose faces are split in four five times."""
    golden = (1 + 5**0.5) / 2
    signs = [(a, b) for a in (-1, 1) for b in (-golden, golden)]
    vertices = np.array([np.roll((0, a, b), k) for a, b in signs for k in range(3)])
    faces = ConvexHull(vertices).simplices
    for _ in range(5):
        edges = np.sort(np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]]), 1)
        edges, place = np.unique(edges, axis=0, return_inverse=True)
        ab, bc, ca = len(vertices) + place.reshape(3, -1)
        vertices = np.concatenate([vertices, vertices[edges].mean(1)])
        vertices /= np.linalg.norm(vertices, axis=1, keepdims=True)
        a, b, c = faces.T
        corners = [(a, ab, ca), (ab, b, bc), (ca, bc, c), (ab, bc, ca)]
        faces = np.concatenate([np.stack(corner, axis=1) for corner in corners])
    bumps = 1 + 0.1 * np.prod(np.sin(7 * vertices), axis=1, keepdims=True)
    return TriangleMesh(vertices * bumps, faces)


def best_of(function: Callable[[], object], runs: int = 3) -> float:
    function()
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def report(name: str, seconds: float) -> None:
    print(f"{name:<36}{1000 * seconds:9.1f} ms")


def main() -> None:
    mesh = bumpy_sphere()
    rng = np.random.default_rng(SEED)
    weights = rng.dirichlet([1, 1, 1], POINTS)
    faces = rng.choice(len(mesh.faces), POINTS, p=mesh.areas / mesh.areas.sum())
    clean = np.einsum("mk,mki->mi", weights, mesh.triangles[faces])
    pred = clean + 0.01 * rng.standard_normal(clean.shape)
    print(describe_machine())
    print(f"commit {source_version()}, seed {SEED}, {POINTS} points, {len(mesh.faces)} faces\n")
    report("closest_on_mesh", best_of(lambda: closest_on_mesh(pred, mesh)))
    report("faces_to_points", best_of(lambda: faces_to_points(mesh, pred)))
    report("cast_rays", best_of(lambda: cast_rays(3 * pred, -pred, mesh)))
    try:
        import igl
    except ImportError:
        print("libigl is not installed: skipped")
    else:
        run = lambda: igl.point_mesh_squared_distance(pred, mesh.vertices, mesh.faces)  # noqa: E731
        report("libigl point_mesh_squared_distance", best_of(run))
    print()
    for name in METRICS:
        few = slice(4096) if name.endswith("emd") else slice(None)
        runs = 1 if name.startswith(("uniformity", "emd", "sq_emd")) else 3
        seconds = best_of(
            lambda name=name, few=few: measure(pred[few], clean[few], mesh, metrics=[name]), runs
        )
        report(f"{name} (4096 points)" if name.endswith("emd") else name, seconds)
    names = [n for n in METRICS if not n.startswith("uniformity") and not n.endswith("emd")]
    print()
    report("all but uniformity and EMD", best_of(lambda: measure(pred, clean, mesh, metrics=names)))


if __name__ == "__main__":
    main()
