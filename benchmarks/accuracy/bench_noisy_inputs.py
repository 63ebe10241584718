"""Metrics of the noisy inputs of PUSet, compared with independently measured values.

    python benchmarks/accuracy/bench_noisy_inputs.py [PACK]

PACK is the packed benchmark data (punet_test.npz), by default the file beside the checkout. The
inputs are clean + sigma * radius * draw; 20 shapes, 10K points, mean over shapes.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from pdflow.mesh import TriangleMesh
from pdflow.metrics import measure

PACK = Path(__file__).resolve().parents[3] / "shared" / "data" / "punet_test.npz"
RESOLUTION = "10000"
METRICS = ["cd", "p2m", "hd", "p2m_pytorch3d", "p2s", "rms"]
EXPECTED = {
    0.01: {"cd": 3.69e-4, "p2m": 1.32e-4, "hd": 1.57e-3},
    0.02: {"cd": 7.94e-4, "p2m": 4.49e-4, "hd": 6.07e-3},
    0.03: {"cd": 13.38e-4, "p2m": 9.33e-4, "hd": 13.5e-3},
}


def main() -> int:
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else PACK
    if not path.is_file():
        print(f"{path} does not exist: give the file of the benchmark data.", file=sys.stderr)
        return 2
    pack = np.load(path)
    names = sorted({key.split("/")[1] for key in pack.files if key.startswith("mesh/")})
    agrees = True
    for sigma, expected in EXPECTED.items():
        rows = []
        for name in names:
            key = f"{RESOLUTION}/{name}"
            low, high = pack[f"clean/{key}/range"]
            clean = pack[f"clean/{key}"] / 65535 * (high - low) + low
            noisy = clean + sigma * pack[f"radius/{key}"] * (pack[f"draw/{key}"] / 4096)
            mesh = TriangleMesh(pack[f"mesh/{name}/v"], pack[f"mesh/{name}/f"])
            rows.append(measure(noisy, clean, mesh, metrics=METRICS))
        print(f"{sigma:.0%}, {len(rows)} shapes")
        for metric in METRICS:
            value = float(np.mean([row[metric] for row in rows]))
            wanted = expected.get(metric)
            note = "" if wanted is None else f"   expected {wanted:.3e}"
            if wanted is not None and abs(value / wanted - 1) > 0.005:
                agrees, note = False, note + "   DIFFERS"
            print(f"  {metric:<14}{value:.3e}{note}")
    return 0 if agrees else 1


if __name__ == "__main__":
    sys.exit(main())
