"""Find the scale of the noise conditioning: CD of held-out shapes for several scales and models.

    python benchmarks/fit/try_conditioning.py DATA --points 10000 --levels 0.02 0.03 \
        --models pdflow other.safetensors --scales 0.8 0.55/0.3 1/0.3

DATA is ScoreDenoise's folder. "0.55/0.3" means two passes; their networks are conditioned on 0.55
and 0.3 times the noise estimated at first. One number means one pass. The conditioning scales of
`pdflow` were chosen with this script; the thresholds of passes can be, too.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np

from pdflow.cloud import PointCloud
from pdflow.metrics import sq_chamfer
from pdflow.pipeline.denoise import Denoiser
from pdflow.provenance import source_version
from pdflow.train.folders import read_source
from pdflow.train.recipe import load_recipe
from pdflow.weights import load_model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--points", type=int, default=10_000)
    parser.add_argument("--levels", type=float, nargs="+", default=[0.01, 0.02, 0.03])
    parser.add_argument("--models", nargs="+", default=["pdflow"])
    parser.add_argument("--scales", nargs="+", default=["0.8", "0.55/0.3"])
    parser.add_argument("--mode", default="points")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    holdout = load_recipe("pdflow-fast").data.holdout
    shapes = read_source(options.data, (), Path("cache")).split(holdout)[1]
    clouds = [cloud for cloud in shapes.in_order() if len(cloud) == options.points]
    print(
        f"commit {source_version()}, seed {options.seed}, {options.mode}, {options.points} points, "
        f"{len(clouds)} held-out shapes: CD e-4"
    )
    for level in options.levels:
        for name in options.models:
            model = load_model(name)
            for text in options.scales:
                scales = [float(scale) for scale in text.split("/")]
                conditioning = (scales[0], scales[0], scales[-1])
                model.inference = replace(model.inference, conditioning_scales=conditioning)
                denoiser = Denoiser(model, mode=options.mode, iterations=len(scales))
                rng = np.random.default_rng(options.seed)
                distances = []
                for clean in clouds:
                    noisy = PointCloud(clean + level * rng.normal(size=clean.shape))
                    distances.append(sq_chamfer(denoiser(noisy).cloud.points, clean))
                mean = 1e4 * np.mean(distances)
                print(f"{level:g}  {Path(name).stem:24s} {text:14s} {mean:.4f}", flush=True)


if __name__ == "__main__":
    main()
