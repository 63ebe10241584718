"""How much harder to smooth noise that the estimate calls correlated.

    python benchmarks/noise/try_correlated.py [--seeds 6] [--model pdflow]

Prints, for made scans of development seeds whose noise is surely correlated, P2M and CD with each
of FACTORS on the conditioning of all passes, relative to the first: geometric means, and the worst.
"""

from __future__ import annotations

import argparse
import math
from unittest.mock import patch

import numpy as np
from bench_conditioning import MEASURE, scenes

from pdflow.bench.scan_cases import Output, ScanCase
from pdflow.cloud import PointCloud
from pdflow.noise import conditioning
from pdflow.noise.estimate import estimate_noise
from pdflow.pipeline.denoise import Denoiser
from pdflow.provenance import source_version
from pdflow.weights import load_model

FIRST_CASE = 900_960
FACTORS = (1.0, 1.4, 1.9)
KINDS = ("depth-camera", "registration", "correlated")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=6, help="scenes of each kind")
    parser.add_argument("--model", default="pdflow")
    options = parser.parse_args()
    denoiser = Denoiser(load_model(options.model))
    print(f"{options.model}, {source_version()}: factors {FACTORS[1:]}")
    for kind in KINDS:
        found = [
            errors(denoiser, case)
            for case in scenes(kind, options.seeds, FIRST_CASE)
            if estimate_noise(case.noisy).correlated > conditioning.SURE[1]
        ]
        ratios = np.array(found)[:, 1:] / np.array(found)[:, :1]
        means, worst = np.exp(np.log(ratios).mean(axis=0)), ratios.max(axis=0)
        for name, column in (("P2M", 0), ("CD", 1)):
            mean, most = (" ".join(f"{v:.2f}" for v in part[:, column]) for part in (means, worst))
            print(f"{kind:14} {len(found):2} scans, {name:4} {mean}, worst {most}", flush=True)


def errors(denoiser: Denoiser, case: ScanCase) -> list[tuple[float, float]]:
    """P2M and CD with each factor."""
    values = []
    for factor in FACTORS:
        with patch.object(conditioning, "CORRELATED", math.log(factor)):
            done = denoiser(PointCloud(case.noisy)).cloud.points
        measured = MEASURE(case, Output(done))
        values.append((measured["p2m_one_way"], measured["cd"]))
    return values


if __name__ == "__main__":
    main()
