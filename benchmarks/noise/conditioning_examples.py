"""Patches of noisy clouds, and how well a network denoises them when conditioned on more or less.

    python benchmarks/noise/conditioning_examples.py FILE [--data DIR] [--clouds 600] [--source S]

The network gets the estimated noise times each of FACTORS in one pass; kept is the mean squared
distance from the surface that remains, with the descriptions that the noise estimate reads.
`benchmarks/noise/fit_conditioning.py` fits a rule to them. Nothing here is used by tests or tables:

    shapes  the 40 training shapes of PUSet (DIR holds punet_train.npz), with independent noise
    kinds   `pdflow.scenes.make_case`, each kind without outliers
    scans   `pdflow.scenes.training_scan`, any surface and scanner, with any noise
    sheets  one or two layers, flat or bent; with `--source sheet` only
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
from noise_examples import ROUNDS, with_any_noise
from noisy_shapes import clean_points, shape_names, varied

from pdflow.backends import Backend, make_backend
from pdflow.geometry.neighbors import NeighborSearch
from pdflow.geometry.normals import fit_normals
from pdflow.geometry.patches import Patches
from pdflow.geometry.triangles import closest_on_mesh
from pdflow.mesh import TriangleMesh
from pdflow.model import PDFlow
from pdflow.noise.estimate import estimate_noise
from pdflow.noise.neighborhoods import describe
from pdflow.pipeline.passes import BLEND_SHARPNESS
from pdflow.pipeline.patching import conditioning_noise, network_frames
from pdflow.pipeline.plan import believed
from pdflow.scenes.cases import KINDS, make_case, training_scan
from pdflow.weights import load_model

ROOT = Path(__file__).resolve().parents[2]
SEED, FIRST_CASE = 0, 70_000
FACTORS = (0.4, 0.55, 0.75, 1.0, 1.35, 1.8, 2.4)
PATCHES, QUERIES, NEARBY = 12, 300, 16
"""Patches and queries of a cloud, and the queries that are nearest to the seed of a patch."""

SHARES = {"shape": 0.3, "kind": 0.5, "scan": 0.2, "sheet": 0.0}
CASES = tuple(kind for kind in KINDS if "outliers" not in kind)
FARTHEST = 6.0
"""Sigmas from the surface beyond which a point counts no more."""


class Cloud(NamedTuple):
    """A noisy cloud and its truth: points, which are outliers, surface, and true noise."""

    name: str
    noisy: np.ndarray
    outliers: np.ndarray
    surface: TriangleMesh | np.ndarray
    sigma: float


class Example(NamedTuple):
    """A cloud as the rule sees it.

    descriptions  (QUERIES, C), and `reaches` (QUERIES,) in the cloud's own unit
    near          (PATCHES, NEARBY) the queries nearest to the seed of each patch
    costs         (PATCHES, FACTORS) mean squared distances over the estimated variance
    sigma         estimated noise, its expected `error`, and `truth`, the true noise
    name          of the kind of cloud
    """

    descriptions: np.ndarray
    reaches: np.ndarray
    near: np.ndarray
    costs: np.ndarray
    sigma: float
    error: float
    truth: float
    name: str


def make_cloud(number: int, pack: Path, source: str | None) -> Cloud:
    """The cloud that belongs to a number, of a source or of any."""
    rng = np.random.default_rng([SEED, number])
    source = source or str(rng.choice(list(SHARES), p=list(SHARES.values())))
    if source == "sheet":
        return sheets(rng)
    if source == "shape":
        name = str(rng.choice(shape_names(pack)))
        points = int(rng.choice([10_000, 10_000, 50_000]))
        clean = clean_points(pack, points, name)
        if rng.random() < 0.3:
            clean = varied(clean, rng)
        sigma = float(np.exp(rng.uniform(np.log(0.004), np.log(0.032))))
        noisy = clean + sigma * rng.standard_normal(clean.shape)
        return Cloud(f"shape {points // 1000}K", noisy, np.zeros(len(noisy), bool), clean, sigma)
    count = round(np.exp(rng.uniform(np.log(2000), np.log(20_000))))
    if source == "kind":
        kind = CASES[number % len(CASES)]
        level = float(np.exp(rng.uniform(np.log(0.002), np.log(0.022))))
        metres = float(np.exp(rng.uniform(np.log(0.008), np.log(0.08))))
        size = {"sigma": metres} if KINDS[kind].surfaces == ("terrain",) else {"level": level}
        case = make_case(kind, FIRST_CASE + number, count, **size)
        noisy, sigmas, outliers, mesh = case.noisy, case.sigma, case.outliers, case.mesh
    else:
        scan = training_scan(FIRST_CASE + number, (2000, 20_000))
        measured, _, kind = with_any_noise(ROUNDS[0], scan, rng)
        kind = f"scan {kind}"
        noisy, sigmas = measured.points, measured.sigma
        outliers, mesh = measured.outliers, scan.mesh
    return Cloud(kind, noisy, outliers, mesh, float(np.sqrt(np.nanmean(sigmas**2))))


def sheets(rng: np.random.Generator) -> Cloud:
    """One layer, or two that are 1.5 to 8 sigma apart: flat in half of all cases, or bent."""
    count = round(np.exp(rng.uniform(np.log(800), np.log(20_000))))
    size = np.array([1, np.exp(rng.uniform(np.log(0.3), 0))])
    sigma = float(np.exp(rng.uniform(np.log(0.002), np.log(0.03))))
    bend = rng.uniform(-0.5, 0.5, 2) * (rng.random() < 0.5)
    layers = 1 + int(rng.random() < 0.25)
    gap = sigma * rng.uniform(1.5, 8)

    def raised(places: np.ndarray, layer: np.ndarray | int) -> np.ndarray:
        return np.column_stack([places, (places - 0.5) ** 2 @ bend + gap * layer])

    steps = np.linspace(0, 1, 61)
    grid = np.stack(np.meshgrid(steps, steps, indexing="ij"), -1).reshape(-1, 2) * size
    corner = (np.arange(60)[:, None] * 61 + np.arange(60)).reshape(-1, 1)
    faces = np.concatenate([corner + np.array(rest) for rest in ([0, 61, 62], [0, 62, 1])])
    mesh = TriangleMesh(
        np.concatenate([raised(grid, layer) for layer in range(layers)]),
        np.concatenate([faces + layer * len(grid) for layer in range(layers)]),
    )
    clean = raised(rng.random((count, 2)) * size, rng.integers(layers, size=count))
    noise = rng.standard_normal(clean.shape)
    if rng.random() < 0.5:  # along one direction, as a scanner from above has it
        noise *= [0, 0, 1]
    name = "sheet" if layers == 1 else "two sheets"
    return Cloud(name, clean + sigma * noise, np.zeros(count, bool), mesh, sigma)


def sq_off(cloud: Cloud, points: np.ndarray) -> np.ndarray:
    """(Q,): squared distances of points (Q, 3) from the surface."""
    if isinstance(cloud.surface, TriangleMesh):
        return closest_on_mesh(points, cloud.surface)[0]
    search = NeighborSearch(cloud.surface)
    near = search.knn(points, 1)[1][:, 0]
    normals = fit_normals(cloud.surface, cloud.surface[near])
    return ((points - cloud.surface[near]) * normals).sum(1) ** 2


def measure(cloud: Cloud, model: PDFlow, backend: Backend, rng: np.random.Generator) -> Example:
    """Denoise some patches of a cloud with each of FACTORS."""
    points, first = np.unique(cloud.noisy, axis=0, return_index=True)
    outliers = cloud.outliers[first]
    search = NeighborSearch(points)
    noise = believed(estimate_noise(search))
    size = min(model.config.patch_points, len(points))
    seeds = rng.choice(np.flatnonzero(~outliers), PATCHES, replace=False)
    sq_distances, rows = search.knn(points[seeds], size)
    patches = Patches(seeds, rows, sq_distances)
    frames = network_frames(model, points, patches)
    cut = frames.cut(points, rows, np.float32)
    sigma = model.inference.conditioning_scales[0] * noise.at(points[seeds])
    weights = patches.weights(BLEND_SHARPNESS) * ~outliers[rows]
    costs = np.empty((PATCHES, len(FACTORS)))
    for column, factor in enumerate(FACTORS):
        given = conditioning_noise(model, factor * sigma, frames)
        moved = frames.undo(backend.run(cut, None, given, lambda done: None))
        sq = sq_off(cloud, moved.reshape(-1, 3)).reshape(rows.shape) / max(noise.sigma, 1e-9) ** 2
        costs[:, column] = (weights * np.minimum(sq, FARTHEST**2)).sum(1) / weights.sum(1)
    asked = rng.choice(len(points), QUERIES, replace=False)
    seen = describe(points, points[asked])
    near = NeighborSearch(points[asked]).knn(points[seeds], NEARBY)[1]
    return Example(
        seen.description.astype(np.float32), seen.reach, near, costs, noise.sigma, noise.error,
        cloud.sigma, cloud.name,
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared/data")
    parser.add_argument("--clouds", type=int, default=600)
    parser.add_argument("--source", choices=SHARES, help="clouds of this source only")
    parser.add_argument("--first", type=int, default=0, help="number of the first cloud")
    parser.add_argument("--minutes", type=float, default=1e9, help="stop earlier")
    arguments = parser.parse_args()
    model = load_model("pdflow")
    backend, examples, start = make_backend(model), [], time.monotonic()
    for number in range(arguments.first, arguments.first + arguments.clouds):
        if time.monotonic() - start > 60 * arguments.minutes:
            break
        rng = np.random.default_rng([SEED, number, 1])
        cloud = make_cloud(number, arguments.data / "punet_train.npz", arguments.source)
        if cloud.sigma > 0 and len(np.unique(cloud.noisy, axis=0)) > QUERIES:
            examples.append(measure(cloud, model, backend, rng))
        if number % 10 == 9:
            columns = map(np.array, zip(*examples, strict=True))
            np.savez(arguments.file, **dict(zip(Example._fields, columns, strict=True)))
            print(number + 1, round(time.monotonic() - start), flush=True)


if __name__ == "__main__":
    main()
