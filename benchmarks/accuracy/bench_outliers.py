"""How many outliers are found, how many points of surfaces are taken for outliers, and the time.

    python benchmarks/accuracy/bench_outliers.py [--seeds 3] [--points 15000]
        [--parts cells,kinds,time] [--first 1000000]

All scenes come from generator seeds that are held out from training. The peer is the statistical
filter of Open3D and PCL with 20 neighbours and 1 deviation.

    far      share of the outliers more than 4 sigma off the surface that are found; the worst
             scene in brackets
    all      share of all outliers that are found
    truth    share of all outliers that lie farther off the true surface than 99 % of its points:
             what could be found with 1 % taken if the surface were known
    taken    share of the surface points that are taken for outliers; the worst scene in brackets
    loose    the same of points on no surface: leaves and wires
    mixed    share of the mixed pixels that are found
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from pdflow.bench.scan_cases import FAR, statistical_filter
from pdflow.cloud import PointCloud
from pdflow.geometry.neighbors import NeighborSearch
from pdflow.geometry.triangles import closest_on_mesh
from pdflow.pipeline.outliers import find_outliers
from pdflow.provenance import describe_machine, source_version
from pdflow.scenes.cases import HELD_OUT_SEEDS, KINDS, Case, make_case

SHARES = (0.02, 0.05, 0.2)
LEVELS = (0.005, 0.01, 0.02)
WITH = tuple(kind for kind in KINDS if KINDS[kind].outliers)
WITHOUT = tuple(kind for kind in KINDS if not KINDS[kind].outliers)
PLACES = ("terrain-tile", "street")
METRES = {0.0: 0.0, 0.005: 0.025, 0.01: 0.05, 0.02: 0.1}
"""Noise of places in metres that stands for a level."""
MOST_TAKEN = 0.01
"""Share of a surface that may be taken."""
SPARSE, SPARSE_POINTS = "sparse-detail", 2000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first", type=int, default=HELD_OUT_SEEDS, help="first seed")
    parser.add_argument("--points", type=int, default=15_000)
    parser.add_argument("--parts", default="cells,kinds,time")
    asked = parser.parse_args()
    seeds = range(asked.first, asked.first + asked.seeds)
    if "cells" in asked.parts:
        print_cells(seeds, asked.points)
    if "kinds" in asked.parts:
        print_kinds(seeds, asked.points)
    if "time" in asked.parts:
        print_times()
    print(f"\nSeeds {seeds[0]} to {seeds[-1]}, {asked.points} points.", end=" ")
    print(f"Commit {source_version()}, {describe_machine()}.")


def print_cells(seeds: range, points: int) -> None:
    print("| outliers | share | noise | far | all | taken | truth | filter: far | all | taken |")
    print("|" + "---|" * 10)
    for kind in WITH:
        for share in SHARES:
            for level in LEVELS:
                ours, peer, known = [], [], []
                for seed in seeds:
                    case = make_case(kind, seed, points, level, outlier_share=share)
                    off = np.sqrt(closest_on_mesh(case.noisy, case.mesh)[0])
                    far = case.outliers & (off > FAR * level * case.scan.radius)
                    masks = (far, case.outliers, ~case.outliers)
                    found, _ = find_outliers(NeighborSearch(case.noisy))
                    filtered = ~statistical_filter(case.noisy)
                    ours.append([share_of(found, mask) for mask in masks])
                    peer.append([share_of(filtered, mask) for mask in masks])
                    limit = np.quantile(off[~case.outliers], 1 - MOST_TAKEN)
                    known.append((off[case.outliers] > limit).mean())
                a, b = np.nanmean(ours, axis=0), np.nanmean(peer, axis=0)
                print(
                    f"| {kind.removeprefix('outliers-')} | {share:.0%} | {level:.1%} "
                    f"| {a[0]:.3f} ({np.nanmin(ours, axis=0)[0]:.3f}) | {a[1]:.3f} "
                    f"| {a[2]:.2%} ({np.max(ours, axis=0)[2]:.2%}) "
                    f"| {np.mean(known):.3f} | {b[0]:.3f} | {b[1]:.3f} | {b[2]:.1%} |",
                    flush=True,
                )


def share_of(found: np.ndarray, mask: np.ndarray) -> float:
    """The share of points of a mask that are found; NaN if there are none."""
    return float(found[mask].mean()) if mask.any() else np.nan


def print_kinds(seeds: range, points: int) -> None:
    heads = [f"taken at {level:.1%}" for level in (0.0, *LEVELS)]
    print(f"\n| no outliers added | {' | '.join(heads)} | loose | mixed |\n|" + "---|" * 7)
    for kind in WITHOUT:
        count = SPARSE_POINTS if kind == SPARSE else points
        cells, loose, mixed = [], [], []
        for level in (0.0, *LEVELS):
            taken = []
            for seed in seeds:
                sigma = METRES[level] if kind in PLACES else None
                case = make_case(kind, seed, count, level, sigma=sigma)
                found = found_in(case)
                taken.append(found[~case.outliers & ~case.scan.loose].mean())
                loose += found[case.scan.loose].tolist()
                mixed += found[case.outliers].tolist()
            cells.append(f"{np.mean(taken):.2%} ({max(taken):.2%})")
        cells += [f"{np.mean(each):.1%}" if each else "" for each in (loose, mixed)]
        print(f"| {kind} | {' | '.join(cells)} |", flush=True)


def found_in(case: Case) -> np.ndarray:
    """(M,): which points are found; duplicates like the point that they repeat."""
    points, place = np.unique(case.noisy, axis=0, return_inverse=True)
    return np.asarray(find_outliers(NeighborSearch(points))[0][place.reshape(-1)])


def print_times(points: int = 10_000, repeats: int = 3) -> None:
    """Time of the search for outliers, and of a run that keeps them, in turns."""
    from pdflow.pipeline.denoise import Denoiser
    from pdflow.weights import load_model

    case = make_case("outliers-uniform", HELD_OUT_SEEDS, points)
    run = Denoiser(load_model("pdflow"))
    searches, runs = [], []
    for _ in range(repeats + 1):
        start = time.perf_counter()
        find_outliers(NeighborSearch(case.noisy))
        middle = time.perf_counter()
        run(PointCloud(case.noisy))
        searches.append(middle - start)
        runs.append(time.perf_counter() - middle)
    ours, all_of_it = min(searches[1:]), min(runs[1:])
    print(f"\nOutliers of {len(case.noisy)} points: {ours:.2f} s, {ours / all_of_it:.0%} of a run.")


if __name__ == "__main__":
    main()
