"""Tune the peers of `pdflow bench` once, on training shapes that our recipe holds out.

    python benchmarks/fit/tune_peers.py DATA [--peers cgal-jet,pcl-mls] [--write]

DATA is ScoreDenoise's folder layout. Every peer gets one `Rule` for all densities and noise levels:
its neighbourhood follows from noise and spacing estimated from the cloud, so no peer gets the noise
level, and neither does pdflow. The numbers are searched one after the other (noises, spacings,
repeat, noises again, strength); each is set to the value with the least mean of log CD over the
cells: 10K points at 1, 2 and 3 % on five shapes, and 50K at the same levels on one shape each.
`--write` stores the result in `src/pdflow/bench/peers/parameters.json`.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np

import pdflow
from pdflow.bench import peers
from pdflow.bench.cases import Case
from pdflow.bench.peers.rule import Rule
from pdflow.metrics import measure
from pdflow.noise.models import add_noise
from pdflow.provenance import describe_machine, source_version
from pdflow.train.recipe import load_recipe

LEVELS = (0.01, 0.02, 0.03)
DENSE_SHAPES = ("eros", "pulley", "fish")
"""The one shape of each level at 50K."""
PARAMETERS = Path(peers.__file__).parent / "parameters.json"

NOISES = (0.0, 1.0, 2.0, 3.0, 4.0)
SPACINGS = (1.5, 2.0, 3.0, 4.0)
REPEATS = (1, 2, 3)
START = Rule(spacings=3.0, noises=2.0)
STRENGTHS = {
    "cgal-bilateral": (30.0, 10.0, 60.0, 90.0),
    "open3d-bilateral": (2.0, 1.0, 4.0),
    "open3d-taubin": (10.0, 5.0, 20.0),
    "open3d-outliers": (2.0, 1.0, 3.0, 4.0),
}
"""The further parameter of a peer; the first value is the start."""
NO_NEIGHBOURHOOD = ("open3d-outliers",)
SLOW = ("cgal-wlop", "open3d-taubin")
"""Tuned on fewer cases and without repeats: they take up to a minute per cloud at 50K."""


def cases(data: Path, slow: bool) -> Iterator[tuple[str, Case]]:
    """Cell name and case of everything to tune on; the noise has seed 0."""
    holdout = load_recipe("pdflow-fast").data.holdout
    for points in (10_000, 50_000):
        for level, dense in zip(LEVELS, DENSE_SHAPES, strict=True):
            if slow and points == 50_000 and level != 0.02:
                continue
            shapes = (dense,) if points == 50_000 else holdout[:2] if slow else holdout
            for shape in shapes:
                folder = data / "PUNet" / "pointclouds" / "train" / f"{points}_poisson"
                clean = pdflow.read(folder / f"{shape}.xyz").points
                noisy = add_noise(clean, "gaussian", level, seed=0)
                yield f"{points // 1000}K {100 * level:g} %", Case(noisy, clean)


def search(peer: peers.Peer, tuned_on: list[tuple[str, Case]]) -> tuple[Rule, dict[str, float]]:
    """The best rule, coordinate by coordinate, and its CD (1e-4) by cell."""
    seen: dict[Rule, tuple[float, dict[str, float]]] = {}

    def score(rule: Rule) -> float:
        if rule not in seen:
            seen[rule] = _score(peer, rule, tuned_on)
            cells = "  ".join(f"{name}: {cd:.3f}" for name, cd in seen[rule][1].items())
            print(f"  {rule}\n    {cells}  score {seen[rule][0]:.4f}", flush=True)
        return seen[rule][0]

    strengths = STRENGTHS.get(peer.name, (0.0,))
    best = replace(START, strength=strengths[0])
    sweeps = [] if peer.name in NO_NEIGHBOURHOOD else [("noises", NOISES), ("spacings", SPACINGS)]
    if peer.name not in NO_NEIGHBOURHOOD and peer.name not in SLOW:
        sweeps += [("repeat", REPEATS), ("noises", NOISES)]
    for name, values in [*sweeps, ("strength", strengths)]:
        best = min((replace(best, **{name: value}) for value in values), key=score)
    score(best)
    return best, seen[best][1]


def _score(
    peer: peers.Peer, rule: Rule, tuned_on: list[tuple[str, Case]]
) -> tuple[float, dict[str, float]]:
    found: dict[str, list[float]] = {}
    method = peers.peer_method(peer, rule)
    for cell, case in tuned_on:
        points = method.denoise(None, case).points
        cd = measure(points, case.clean, metrics=("cd",))["cd"] if np.isfinite(points).all() else 1
        found.setdefault(cell, []).append(1e4 * cd)
    cells = {cell: float(np.mean(values)) for cell, values in found.items()}
    return float(np.mean([math.log(cd) for cd in cells.values()])), cells


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--peers", default=",".join(peer.name for peer in peers.PEERS))
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args()
    print(f"commit {source_version()}, {describe_machine()}, noise of seed 0")
    for name in args.peers.split(","):
        (peer,) = (peer for peer in peers.PEERS if peer.name == name)
        if peer.missing():
            print(f"{name} is not installed: {peer.missing()}")
            continue
        print(f"{name} {peer.version()}", flush=True)
        rule, cells = search(peer, list(cases(args.data, name in SLOW)))
        print(f"{name}: {rule}", flush=True)
        if args.write:
            known = json.loads(PARAMETERS.read_text())
            rounded = {cell: round(cd, 3) for cell, cd in cells.items()}
            known[name] = {"rule": asdict(rule), "heldout_cd_1e-4": rounded}
            PARAMETERS.write_text(json.dumps(known, indent=2) + "\n")


if __name__ == "__main__":
    main()
