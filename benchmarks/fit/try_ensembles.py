"""Rotated copies in the last pass, and more overlap: what they bring to training shapes.

    python benchmarks/fit/try_ensembles.py DATA --model pdflow-fast --levels 0.01 0.02 0.03

DATA is ScoreDenoise's folder. "4 rotations": in the last pass the network sees each patch in four
random orientations, and their results, turned back, are averaged. "overlap 6": a point is in six
patches on average, in every pass. Printed are CD (e-4) of the plain run, the CD of each variant
over that (geometric mean, least and largest of the shapes), and its CPU time over the plain run's.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np

from pdflow.backends import Backend, Progress, make_backend
from pdflow.backends.draws import EpsDraws
from pdflow.cloud import PointCloud
from pdflow.metrics import sq_chamfer
from pdflow.noise import add_noise
from pdflow.pipeline import denoise as pipeline
from pdflow.pipeline.passes import Pass
from pdflow.provenance import describe_machine, source_version
from pdflow.train.folders import read_source
from pdflow.train.recipe import load_recipe
from pdflow.weights import load_model

SEED = 1
POINTS = 10_000
OVERLAPS, ROTATIONS = (4, 5, 6), (2, 4)


class Rotated:
    """A backend that averages over orientations; `active` while the last pass runs."""

    def __init__(self, backend: Backend, count: int) -> None:
        self.backend = backend
        self.active = False
        rng = np.random.default_rng(SEED)
        draws = [np.linalg.qr(rng.normal(size=(3, 3)))[0] for _ in range(count - 1)]
        self.turns = [np.eye(3), *(turn * np.sign(np.linalg.det(turn)) for turn in draws)]

    def run(
        self,
        patches: np.ndarray,
        eps: EpsDraws | None,
        sigma: np.ndarray | None,
        progress: Progress,
    ) -> np.ndarray:
        """Clean patches (P, N, 3), the mean over all orientations."""
        turns = self.turns if self.active else self.turns[:1]
        done = [self.backend.run(patches @ turn, eps, sigma, progress) @ turn.T for turn in turns]
        return np.asarray(np.mean(done, axis=0))


def denoise(denoiser: pipeline.Denoiser, noisy: np.ndarray, rotations: int) -> np.ndarray:
    """Denoised points (M, 3), with rotated copies in the last pass."""
    backend = Rotated(make_backend(denoiser.model), rotations)
    moved, make = Pass.moved, pipeline.make_backend

    def watched(self: Pass, *options):
        backend.active = self.done == self.plan.passes - 1
        return moved(self, *options)

    Pass.moved = watched
    pipeline.make_backend = lambda model, name=None: backend
    try:
        return denoiser(PointCloud(noisy)).cloud.points
    finally:
        Pass.moved = moved
        pipeline.make_backend = make


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--model", default="pdflow-fast")
    parser.add_argument("--levels", nargs="+", type=float, default=[0.01, 0.02, 0.03])
    parser.add_argument("--mode", default="points")
    parser.add_argument("--shapes", type=int, default=6, help="those held out, then others")
    options = parser.parse_args()
    model = load_model(options.model)
    print(f"{describe_machine()}\ncommit {source_version()}, seed {SEED}, mode {options.mode}")
    trained, held = read_source(options.data, (), Path("cache")).split(
        load_recipe(options.model).data.holdout
    )
    clouds = {**held.clouds, **trained.clouds}
    names = list(clouds)[: options.shapes]
    print(f"{options.model}; shapes: {', '.join(names)} (held out: {', '.join(held.clouds)})\n")
    variants = [("plain", 3.0, 1)]
    variants += [(f"overlap {overlap}", float(overlap), 1) for overlap in OVERLAPS]
    variants += [(f"{count} rotations", 3.0, count) for count in ROTATIONS]
    print("| noise | variant | CD, or over plain | least | largest | CPU time |")
    print("|---" * 6 + "|")
    warm_up = np.random.default_rng(SEED).random((1000, 3)) * [1, 1, 0.01]
    denoise(pipeline.Denoiser(model, mode=options.mode), warm_up, 1)  # compiles and loads
    for level in options.levels:
        plain, plain_time = np.ones(len(names)), 1.0
        for label, overlap, rotations in variants:
            denoiser = pipeline.Denoiser(model, mode=options.mode, overlap=overlap)
            cds, start = [], time.process_time()
            for name in names:
                clean = next(cloud for cloud in clouds[name] if len(cloud) == POINTS)
                noisy = add_noise(clean, "gaussian", level, SEED)
                cds.append(1e4 * sq_chamfer(denoise(denoiser, noisy, rotations), clean))
            took = time.process_time() - start
            ratios = np.array(cds) / plain
            values = [np.exp(np.log(ratios).mean()), ratios.min(), ratios.max(), took / plain_time]
            if label == "plain":
                plain, plain_time, values[-1] = np.array(cds), took, 1.0
            print(
                "|",
                f"{level:g} | {label} |",
                " | ".join(f"{v:.3f}" for v in values),
                "|",
                flush=True,
            )


if __name__ == "__main__":
    main()
