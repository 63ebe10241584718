"""What passes over the chunks of a cloud measure, for clouds of any size."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from pdflow.cli.progress import Result

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pdflow.cloud import PointCloud

SPACING_SAMPLE = 10_000
"""Number of points whose nearest neighbour is searched; all points of a smaller cloud."""

POINTS_IN_CELL = 16
"""Points in a square of the grid that the density is measured on."""

POINTS_HELD = 8_000_000
"""Largest cloud whose coordinates stay in memory (192 MB); larger files are read twice."""


class Survey:
    """What one pass over the chunks of a cloud collects.

    low, high      (3,) extent
    attributes     name -> dtype, width, min and max (one per column where width > 0)
    classes        code of `classification` -> number of points, if it is there
    sample_points  (S, 3) random points, the same ones for any chunk size
    sample_rows    (S,) their rows in the cloud
    held           all points in chunks, or None once there are too many
    """

    def __init__(self) -> None:
        import numpy as np

        self.count = 0
        self.low, self.high = np.full(3, np.inf), np.full(3, -np.inf)
        self.attributes: dict[str, Result] = {}
        self._classes: dict[int, int] = {}
        self.sample_points, self.sample_rows = np.empty((0, 3)), np.empty(0, np.int64)
        self.held: list[NDArray[np.float64]] | None = []
        self._sample_keys = np.empty(0)
        self._random = np.random.default_rng(0)

    def add(self, chunk: PointCloud) -> None:
        """Add the next points."""
        import numpy as np

        self.low = np.minimum(self.low, chunk.points.min(0))
        self.high = np.maximum(self.high, chunk.points.max(0))
        for name, values in chunk.attributes.items():
            self.attributes[name] = _wider(self.attributes.get(name), values)
        self._count_classes(chunk.attributes.get("classification"))
        self._draw(chunk.points)
        self.count += len(chunk)
        if self.held is not None:
            self.held.append(chunk.points)
            if self.count > POINTS_HELD:
                self.held = None

    @property
    def thinning(self) -> int:
        """One of so many points is as many as stay in memory."""
        return -(-self.count // POINTS_HELD)

    @property
    def classes(self) -> dict[str, int]:
        """The codes in order, as keys of JSON."""
        return {str(code): self._classes[code] for code in sorted(self._classes)}

    def _count_classes(self, codes: NDArray[Any] | None) -> None:
        import numpy as np

        if codes is None or codes.ndim != 1 or codes.dtype.kind not in "iu":
            return
        for code, count in zip(*np.unique(codes, return_counts=True), strict=True):
            self._classes[int(code)] = self._classes.get(int(code), 0) + int(count)

    def _draw(self, points: NDArray[np.float64]) -> None:
        """Keep the points with the smallest random keys: a uniform sample of a stream."""
        import numpy as np

        keys = np.concatenate([self._sample_keys, self._random.random(len(points))])
        kept = np.sort(np.argsort(keys, kind="stable")[:SPACING_SAMPLE])
        rows = np.arange(self.count, self.count + len(points))
        self._sample_keys = keys[kept]
        self.sample_rows = np.concatenate([self.sample_rows, rows])[kept]
        self.sample_points = np.concatenate([self.sample_points, points])[kept]


class Spacing:
    """Exact distances from sampled points to their nearest neighbours in a chunked cloud."""

    def __init__(self, queries: NDArray[np.float64], rows: NDArray[np.int64]) -> None:
        import numpy as np

        self._queries, self._rows = queries, rows
        self._sq_nearest = np.full(len(queries), np.inf)
        self._count = 0

    def add(self, chunks: list[NDArray[np.float64]]) -> None:
        """Add the next points of the cloud."""
        import numpy as np

        from pdflow.geometry.neighbors import knn

        points = np.concatenate(chunks)
        k = min(2, len(points))  # two, because a point is its own nearest neighbour
        sq_distances, indices = knn(points, self._queries, k)
        itself = indices + self._count == self._rows[:, None]
        sq_distances = np.where(itself, np.inf, sq_distances)
        self._sq_nearest = np.minimum(self._sq_nearest, sq_distances.min(1))
        self._count += len(points)

    def median(self) -> float | None:
        """The median of the distances; None for a single point."""
        import numpy as np

        return float(np.median(np.sqrt(self._sq_nearest))) if self._count > 1 else None


class Density:
    """Points for each square unit of the ground, the plane of x and y, that a cloud covers.

    The ground is divided into squares that would hold POINTS_IN_CELL points each if the cloud
    covered its whole extent; only squares with points count.
    """

    def __init__(self, low: NDArray[np.float64], high: NDArray[np.float64], count: int) -> None:
        import numpy as np

        size = high[:2] - low[:2]
        self._low, self._count = low[:2], count
        with np.errstate(over="ignore"):
            self._cell = math.sqrt(float(np.prod(size)) * POINTS_IN_CELL / count)
        if not math.isfinite(self._cell):
            self._cell = 0.0
        if self._cell:
            # A strip of a cloud must not ask for more cells than there are points.
            self._shape = np.minimum(size // self._cell + 1, max(count, 1)).astype(int)
            self._covered = np.zeros(self._shape, bool)

    def add(self, points: NDArray[np.float64]) -> None:
        """Add the next points (M, 3)."""
        import numpy as np

        if self._cell:
            # The last cell takes what lies beyond, and what would be too large for an integer.
            cells = np.minimum((points[:, :2] - self._low) / self._cell, self._shape - 1)
            self._covered[tuple(cells.astype(int).T)] = True

    def value(self) -> float | None:
        """The density; None for a cloud without an area."""
        import numpy as np

        if not self._cell:
            return None
        return self._count / (int(np.count_nonzero(self._covered)) * self._cell**2)


def _wider(known: Result | None, values: NDArray[Any]) -> Result:
    """The description of an attribute, its range widened by the values of one more chunk."""
    import numpy as np

    width = values.shape[1] if values.ndim == 2 else 0
    described: Result = {"dtype": values.dtype.name, "width": width, "min": None, "max": None}
    if values.dtype.kind not in "biuf":
        return described
    for key, extremum in (("min", np.fmin), ("max", np.fmax)):  # both ignore NaN
        extreme = extremum.reduce(values, axis=0)
        if known is not None:
            extreme = extremum(extreme, np.asarray(known[key], extreme.dtype))
        described[key] = plain(extreme)
    return described


def plain(value: Any) -> Any:
    """Metadata as JSON types; long binary values are replaced by their size."""
    import numpy as np

    if isinstance(value, (np.ndarray, np.generic)):
        if value.dtype.kind in "biufU" and value.size <= 16:
            return plain(value.tolist())
        return f"array of {value.dtype} {value.shape}"
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, bytes):
        return f"{len(value)} bytes"
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return value if value is None or isinstance(value, (str, int)) else str(value)
