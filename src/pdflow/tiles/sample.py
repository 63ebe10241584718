"""Sample: some rows of a file that need not fit in memory, for a picture."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pdflow.cloud import PointCloud
from pdflow.io import drop_nonfinite, open_reader

SAMPLE = 500_000
"""Points of a sample, about: a figure shows no more."""


def sample_rows(path: Path, format: str | None = None, most: int = SAMPLE) -> PointCloud:
    """Evenly spread rows of a file, without those that are not finite; at most `most`.

    Files with the same number of finite points give the same rows.
    """
    with open_reader(path, format) as reader:
        total = sum(len(drop_nonfinite(chunk)[0]) for chunk in reader.chunks())
    step, row, parts = -(-total // most), 0, []
    with open_reader(path, format) as reader:
        for chunk in reader.chunks():
            finite, _ = drop_nonfinite(chunk)
            rows = np.arange(-row % step, len(finite), step)
            row += len(finite)
            parts.append(finite[rows])
    return PointCloud.concatenate(parts)
