"""Denoise odd clouds, and compare what must not make a difference.

    python fuzz/odd_clouds.py                       # 1,000 clouds, the smallest first
    python fuzz/odd_clouds.py --clouds 50 --seed 7
    python fuzz/odd_clouds.py --record found.jsonl  # goes on where it was stopped

Clouds have 1 to 5,000 points on planes, lines, clusters, spheres or nowhere in particular, some
with duplicates and far outliers, at scales of 1e-6 to 1e9 and offsets up to 1e8 of the scale's
unit. Each is denoised, or refused in one sentence if too few points lie on surfaces. Then

  bound     no point moved farther than MOST_SIGMAS times the noise around it
  threads   another number of threads gives equal bits
  shift, shuffle, change (of 1e-7 of the size), rotation  differ by no more than LIMITS

The differences are RMS over all points, relative to the estimated noise. Exit code 1 if a cloud
fails.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from unittest import mock

import numpy as np
from numpy.typing import NDArray

import pdflow
from pdflow import PdflowError
from pdflow.model import PDFlow
from pdflow.noise.estimate import MOST_LOCAL
from pdflow.pipeline.restraint import MOST_SIGMAS

Points = NDArray[np.float64]

LARGEST = 5000
GRID = 2.0**-24
"""Step of the coordinates relative to the scale, so that shifts can be exact."""

LIMITS = {"shift": 1e-4, "shuffle": 0.02, "change": 0.1, "rotation": 0.05}
"""Largest RMS difference, in units of the noise.

A shift and a scale that float64 holds exactly, another order of rows, and a rotation or a mirror
change rounding only. A change of 1e-7 may let a later pass begin patches at another point.
"""

FAILED = "failed: "
FINEST = 1e-3
"""Least noise that differences are compared with, relative to the size: clean clouds have none."""


def odd_cloud(seed: int) -> Points:
    """A cloud (M, 3) around 0 with a size of about 1, on a grid of GRID."""
    rng = np.random.default_rng(seed)
    count = int(np.exp(rng.uniform(0, np.log(LARGEST + 1))))
    shape = SHAPES[seed % len(SHAPES)]
    points = shape(rng, count)
    points = points + rng.normal(size=points.shape) * rng.choice([0.0, 0.003, 0.01, 0.03])
    if rng.random() < 0.3:
        points = points[rng.integers(0, count, count)]  # duplicates
    if rng.random() < 0.3:
        far = rng.random(count) < 0.02
        points[far] += rng.normal(size=(int(far.sum()), 3)) * rng.choice([1.0, 100.0])
    return np.rint(points / GRID) * GRID


def _plane(rng: np.random.Generator, count: int) -> Points:
    return rng.uniform(-1, 1, (count, 3)) * [1, 1, 0]


def _line(rng: np.random.Generator, count: int) -> Points:
    return rng.uniform(-1, 1, (count, 1)) * [1, 0.5, 0.25]


def _clusters(rng: np.random.Generator, count: int) -> Points:
    centers = rng.uniform(-1, 1, (5, 3))
    return centers[rng.integers(0, 5, count)] + rng.normal(size=(count, 3)) * 0.02


def _sphere(rng: np.random.Generator, count: int) -> Points:
    points = rng.normal(size=(count, 3))
    return points / np.linalg.norm(points, axis=1, keepdims=True)


def _corner(rng: np.random.Generator, count: int) -> Points:
    points = rng.uniform(0, 1, (count, 3))
    points[np.arange(count), rng.integers(0, 3, count)] = 0
    return points


def _anywhere(rng: np.random.Generator, count: int) -> Points:
    return rng.uniform(-1, 1, (count, 3))


SHAPES: list[Callable[[np.random.Generator, int], Points]] = [
    _plane,
    _sphere,
    _line,
    _corner,
    _clusters,
    _anywhere,
]


def check(seed: int, model: str = "pdflow") -> dict[str, float] | str:
    """Differences by name in units of the noise; or the sentence that refuses the cloud.

    AssertionError if a property is broken.
    """
    cloud = odd_cloud(seed)
    denoise = partial(pdflow.denoise, model=_load(model))
    rng = np.random.default_rng([seed, 1])
    scale = 2.0 ** int(rng.integers(-20, 31))  # 1e-6 to 1e9
    offset = np.rint(rng.uniform(-1, 1, 3) * rng.choice([0.0, 1.0, 1e3, 1e8]))
    try:
        clean, report = denoise(cloud, return_report=True)
    except PdflowError as error:
        sentence = str(error)
        assert "\n" not in sentence
        assert refuses(denoise, cloud * scale), f"a scaled cloud is not refused: {sentence}"
        assert refuses(denoise, cloud[::-1]), f"a reversed cloud is not refused: {sentence}"
        return sentence
    assert clean.shape == cloud.shape
    assert np.isfinite(clean).all()
    moves = np.linalg.norm(clean - cloud, axis=1)
    longest = MOST_SIGMAS * MOST_LOCAL * report.noise_before
    assert moves.max() <= longest * (1 + 1e-9), f"a move of {moves.max():g}, beyond {longest:g}"
    with threads(5):
        assert np.array_equal(denoise(cloud), clean), "threads change bits"
    size = float(np.linalg.norm(np.ptp(cloud, axis=0))) / 2
    unit = max(report.noise_before, FINEST * size)

    def difference(again: Points) -> float:
        assert np.isfinite(again).all()
        return float(np.sqrt(((again - clean) ** 2).sum(1).mean())) / unit

    # What float64 cannot hold of the moved cloud is no fault of the result.
    moved = (cloud + offset) * scale
    cut = float(np.spacing(np.abs(moved).max()) / scale) / unit
    exact = np.array_equal(moved / scale - offset, cloud)
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    order = rng.permutation(len(cloud))
    back = np.argsort(order)
    change = rng.normal(size=cloud.shape) * 1e-7 * size
    found = {
        "rotation": difference(denoise(cloud @ turn.T) @ turn),
        "shuffle": difference(denoise(cloud[order])[back]),
        "change": difference(denoise(cloud + change)),
    }
    shifted = difference(denoise(moved) / scale - offset)
    if exact:
        found["shift"] = max(0.0, shifted - 4 * cut)
    return found


@cache
def _load(model: str) -> PDFlow:
    return pdflow.load_model(model)


def refuses(denoise: Callable[[Points], Points], cloud: Points) -> bool:
    """Whether a cloud is refused."""
    try:
        denoise(cloud)
    except PdflowError:
        return True
    return False


@contextlib.contextmanager
def threads(count: int) -> Iterator[None]:
    """Let pdflow use this many threads."""
    with contextlib.ExitStack() as stack:
        for name, module in list(sys.modules.items()):
            if name.startswith("pdflow") and hasattr(module, "available_cores"):
                stack.enter_context(
                    mock.patch.object(module, "available_cores", return_value=count)
                )
        yield


def failures(found: dict[str, float]) -> list[str]:
    """Names of the differences that are too large."""
    return [name for name, value in found.items() if value > LIMITS[name]]


def main() -> int:
    """Check the clouds and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clouds", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0, help="of the first cloud")
    parser.add_argument("--model", default="pdflow")
    parser.add_argument("--record", type=Path, help="file of results, which are not repeated")
    options = parser.parse_args()
    known = recorded(options.record)
    seeds = range(options.seed, options.seed + options.clouds)
    for seed in sorted(seeds, key=lambda seed: len(odd_cloud(seed))):
        if seed in known:
            continue
        try:
            known[seed] = check(seed, options.model)
        except Exception as error:
            known[seed] = f"{FAILED}{type(error).__name__}: {error}"
        if options.record:
            with options.record.open("a") as file:
                file.write(json.dumps([seed, known[seed]]) + "\n")
    print(f"{options.clouds} clouds from seed {options.seed}")
    return summarise({seed: known[seed] for seed in seeds})


def recorded(path: Path | None) -> dict[int, dict[str, float] | str]:
    """What a file of earlier results says, by seed."""
    if path is None or not path.exists():
        return {}
    return dict(json.loads(line) for line in path.read_text().splitlines())


def summarise(found: dict[int, dict[str, float] | str]) -> int:
    """Print counts, differences and failures; the exit code."""
    broken = {k: v for k, v in found.items() if isinstance(v, str) and v.startswith(FAILED)}
    differences = {k: v for k, v in found.items() if isinstance(v, dict)}
    refused = len(found) - len(broken) - len(differences)
    print(f"{len(differences)} denoised, {refused} refused in a sentence, {len(broken)} broken")
    for name, limit in LIMITS.items():
        values = [value[name] for value in differences.values() if name in value]
        if values:
            median, high, most = np.quantile(values, [0.5, 0.99, 1])
            print(f"{name:9} {len(values):4} clouds, of the noise: median {median:.2g}", end="")
            print(f", 99 % below {high:.2g}, most {most:.2g}, limit {limit:g}")
    beyond = {k: v for k, v in differences.items() if failures(v)}
    for seed, what in (broken | beyond).items():
        print(f"cloud {seed}: {what}")
    print(f"{len(broken) + len(beyond)} failed")
    return int(bool(broken or beyond))


if __name__ == "__main__":
    sys.exit(main())
