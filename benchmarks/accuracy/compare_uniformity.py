"""Uniformity of the weights that the authors released, beside the figures that the paper prints.

    pdflow import-weights RELEASED.safetensors -o released.safetensors
    python benchmarks/accuracy/compare_uniformity.py DATA released.safetensors

DATA is ScoreDenoise's folder. Denoising is that of the authors' code: patches of 1024 points in the
cloud's frame, three per point, eps drawn; farthest points of all of them; one pass at 1 and 2 %,
two at 3 %. Printed are means over the test shapes in 1e-3, as in `pdflow bench uniformity`; ten
times the sum, which is what the paper prints; and its figures.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch

from pdflow.backends import make_backend
from pdflow.backends.draws import EpsDraws
from pdflow.bench.cases import Options
from pdflow.bench.published import SHAPES, published_rows
from pdflow.bench.rivals.patchwise import Patching, denoise_by_patches
from pdflow.bench.score_layout import gaussian_cells
from pdflow.metrics import sq_chamfer, uniformity
from pdflow.provenance import describe_machine, source_version
from pdflow.weights import load_model

SEED = 0
POINTS = 10_000
PASSES = {"1 %": 1, "2 %": 1, "3 %": 2}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("weights", type=Path)
    parser.add_argument("--levels", nargs="+", type=float, default=[0.01, 0.02, 0.03])
    parser.add_argument("--shapes", type=int, help="only the first ones")
    options = parser.parse_args()
    print(f"{describe_machine()}\ncommit {source_version()}, seed {SEED}\n")
    backend = make_backend(load_model(options.weights))

    def network(patches: torch.Tensor) -> torch.Tensor:
        noisy = patches.double().numpy()
        return torch.as_tensor(backend.run(noisy, EpsDraws(SEED), None, lambda done: None))

    paper = {row.method: row for row in published_rows("uniformity")}["PD-Flow"]
    patching = Patching(1024, overlap=3, batch=10**6, centred=False, resampled=True)
    wanted = Options(
        options.data, Path(), points=(POINTS,), levels=tuple(options.levels), shapes=options.shapes
    )
    print("| noise | | CD e-4 | 0.4 % | 0.6 % | 0.8 % | 1.0 % | 1.2 % |")
    print("|---" * 8 + "|")
    for cell in gaussian_cells(wanted, ()):
        cds, found = [], []
        for shape in cell.shapes:
            case = cell.load(shape)
            assert case.mesh is not None
            clean = denoise_by_patches(case.noisy, network, patching, PASSES[cell.name])
            cds.append(1e4 * sq_chamfer(clean, case.clean))
            found.append([1e3 * value for value in uniformity(clean, case.mesh).values()])
        means = np.mean(found, axis=0)
        printed = np.array([v for (at, _), v in paper.values.items() if at == cell.label])
        factor = 10 * len(SHAPES["PUSet"]) * 1e-3
        for row, cd, values in (
            (f"mean over {len(found)} shapes, e-3", np.mean(cds), means),
            ("ten times the sum over 20", np.mean(cds), means * factor),
            ("the paper prints", printed[0], printed[1:] * factor),
            ("ratio", np.mean(cds) / printed[0], means / printed[1:]),
        ):
            cells = [cell.name, row, *(f"{value:.2f}" for value in (cd, *values))]
            print("|", " | ".join(cells), "|", flush=True)


if __name__ == "__main__":
    main()
