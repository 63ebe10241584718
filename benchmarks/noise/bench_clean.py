"""Clean and nearly clean clouds: what denoising does to them.

    python benchmarks/noise/bench_clean.py DATA [--points 10000 50000]
        [--levels 0 0.001 0.0025 0.005]

DATA holds punet_train.npz: its 40 shapes are measured, and every kind of made scene without
outliers (one scene each, with a held-out seed). Printed are

- without noise, the mean move in spacings (the median distance to the nearest neighbour), and
  CD e-4;
- with noise, CD over that of the noisy input.

The last lines name the worst cloud of each column.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from noisy_shapes import clean_points, shape_names

import pdflow
from pdflow.geometry import knn, unit_sphere
from pdflow.metrics import sq_chamfer
from pdflow.model import PDFlow
from pdflow.provenance import describe_machine, source_version
from pdflow.scenes.cases import KINDS, make_case

SEED = 0
SCENE = 1_300_000


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--points", type=int, nargs="+", default=[10_000, 50_000])
    parser.add_argument("--levels", type=float, nargs="+", default=[0.0, 0.001, 0.0025, 0.005])
    parser.add_argument("--model", default="pdflow")
    asked = parser.parse_args()
    print(f"{describe_machine()}, commit {source_version()}, seed {SEED}, model {asked.model}")
    model = pdflow.load_model(asked.model)
    worst: dict[str, tuple[float, str]] = {}
    for count in asked.points:
        for name, pairs in clouds(asked.data / "punet_train.npz", count, asked.levels):
            columns = [part for pair in pairs for part in measured(model, count, *pair).items()]
            print(f"{name:18}", *(f"{what} {value:.4f}" for what, value in columns), flush=True)
            for what, value in columns:
                worst[what] = max(worst.get(what, (0.0, "")), (value, name))
    print("\nworst")
    for what, (value, name) in worst.items():
        print(f"{what}: {value:.4f} ({name})")


def clouds(
    pack: Path, count: int, levels: list[float]
) -> Iterator[tuple[str, list[tuple[float, np.ndarray, np.ndarray]]]]:
    """Names of clouds, each with a noisy and a clean cloud for every level."""
    for name in shape_names(pack):
        clean = clean_points(pack, count, name)
        clean = unit_sphere(clean).apply(clean)
        draw = np.random.default_rng([SEED, count, *name.encode()]).standard_normal(clean.shape)
        yield name, [(level, clean + level * draw, clean) for level in levels]
    for kind in (kind for kind in KINDS if "outliers" not in kind):
        made = [make_case(kind, SCENE, count, level) for level in levels]
        yield kind, [(level, c.noisy, c.clean) for level, c in zip(levels, made, strict=True)]


def measured(
    model: PDFlow, count: int, level: float, noisy: np.ndarray, clean: np.ndarray
) -> dict[str, float]:
    """The figures of a cloud, by what they are."""
    done = pdflow.denoise(noisy, model=model)
    error = sq_chamfer(done, clean)
    if level > 0:
        return {f"{count // 1000}K {level:.2%}: CD / noisy": error / sq_chamfer(noisy, clean)}
    spacing = float(np.sqrt(np.median(knn(noisy, noisy, 2)[0][:, 1])))
    move = float(np.linalg.norm(done - noisy, axis=1).mean()) / spacing
    return {f"{count // 1000}K clean: move": move, f"{count // 1000}K clean: CD e-4": error * 1e4}


if __name__ == "__main__":
    main()
