"""PCL's moving least squares, through its command.

The command supports only float32 coordinates, and pads its output to whole memory pages, which
readers refuse. So both files are written and read here.
"""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

import numpy as np

from pdflow.bench.cases import Points
from pdflow.bench.peers.rule import Neighbourhood, Rule
from pdflow.errors import PdflowError

COMMAND = "pcl_mls_smoothing"
_HEADER = (
    "VERSION 0.7\nFIELDS x y z\nSIZE 4 4 4\nTYPE F F F\nCOUNT 1 1 1\nWIDTH {0}\nHEIGHT 1\n"
    "VIEWPOINT 0 0 0 1 0 0 0\nPOINTS {0}\nDATA binary\n"
)


def mls(points: Points, around: Neighbourhood, rule: Rule) -> Points:
    """Each point is projected onto a polynomial of order 2 fitted to its neighbours."""
    with tempfile.TemporaryDirectory() as folder:
        noisy, smooth = Path(folder, "noisy.pcd"), Path(folder, "smooth.pcd")
        noisy.write_bytes(_HEADER.format(len(points)).encode() + points.astype("<f4").tobytes())
        options = ("-radius", f"{around.radius:.9g}", "-polynomial_order", "2")
        done = subprocess.run(
            [COMMAND, str(noisy), str(smooth), *options],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode or not smooth.exists():
            words = (done.stderr or done.stdout).strip().splitlines()[-1:]
            raise PdflowError(f"{COMMAND} failed ({''.join(words)}).")
        return _first_columns(smooth.read_bytes())


def _first_columns(content: bytes) -> Points:
    """x, y, z (M, 3) of a binary PCD file whose rows begin with them."""
    head, _, body = content.partition(b"DATA binary\n")
    fields = {line.split()[0]: line.split()[1:] for line in head.splitlines()[1:]}
    count = int(fields[b"POINTS"][0])
    row = sum(int(size) * int(n) for size, n in zip(fields[b"SIZE"], fields[b"COUNT"], strict=True))
    rows = np.frombuffer(body, np.uint8, count * row).reshape(count, row)
    return np.ascontiguousarray(rows[:, :12]).view("<f4").astype(np.float64)
