"""`pdflow info`: what is in a file."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pdflow.cli.files import expand_inputs, naming, open_finite
from pdflow.cli.options import AsJson, DropNonfinite, InputFormat, Inputs, option
from pdflow.cli.progress import Result, say_results

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pdflow.cloud import PointCloud

NAME = "info"

SPACING_SAMPLE = 10_000
"""Number of points whose nearest neighbour is searched; all points of a smaller cloud."""

POINTS_HELD = 8_000_000
"""Largest cloud whose coordinates stay in memory (192 MB); larger files are read twice."""


def run(
    inputs: Inputs,
    format: InputFormat = None,
    drop_nonfinite: DropNonfinite = False,
    noise: Annotated[bool, option("--noise", "Estimate the noise of clouds as well.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show what is in clouds and meshes.

    Clouds: points, extent, spacing, attributes with their ranges, CRS, metadata. Meshes: vertices,
    faces, area, extent.
    The spacing is the median distance to the nearest other point. Files are read in chunks if
    their format allows it, so they need not fit in memory.
    """
    results = [_inspect(path, format, drop_nonfinite, noise) for path in expand_inputs(inputs)]
    say_results(results, as_json, _describe)


def _inspect(path: Path, format: str | None, drop: bool, noise: bool) -> Result:
    from pdflow.io import find_format

    kind = find_format(path, format)
    if not kind.points:
        contents = _inspect_mesh(path, format)
    else:
        contents = _inspect_cloud(path, format, drop, noise)
        if kind.mesh and contents["metadata"].get(kind.name, {}).get("elements", {}).get("face"):
            surface = _inspect_mesh(path, format)
            contents.update({key: surface[key] for key in ("faces", "area")})
    return {"file": str(path), "format": kind.name, **contents}


def _inspect_mesh(path: Path, format: str | None) -> Result:
    from pdflow.io import read_mesh

    mesh = read_mesh(path, format)
    extent = _extent(mesh.vertices.min(0), mesh.vertices.max(0)) if len(mesh.vertices) else {}
    return {
        "kind": "mesh",
        "vertices": len(mesh.vertices),
        "faces": len(mesh.faces),
        "area": float(mesh.areas.sum()),
        **extent,
    }


def _inspect_cloud(path: Path, format: str | None, drop: bool, noise: bool) -> Result:
    survey = _Survey()
    with open_finite(path, format, drop) as chunks:
        for chunk in chunks:
            survey.add(chunk)
        header, dropped = chunks.header, chunks.dropped
    spacing = _Spacing(survey.sample_points, survey.sample_rows)
    thinned = survey.held or []
    if survey.held is not None:
        with naming(path):
            spacing.add(survey.held)
    else:
        step = -(-survey.count // POINTS_HELD)
        with open_finite(path, format, drop) as chunks:
            for chunk in chunks:
                with naming(path):
                    spacing.add([chunk.points])
                if noise:
                    thinned.append(chunk.points[::step])
    return {
        "kind": "cloud",
        "points": survey.count,
        "dropped": dropped,
        **_extent(survey.low, survey.high),
        "spacing": spacing.median(),
        **(_noise(thinned) if noise else {}),
        "attributes": survey.attributes,
        "crs": _plain(header.metadata.get("crs")),
        "metadata": {k: _plain(v) for k, v in header.metadata.items() if k != "crs"},
    }


def _noise(chunks: list[NDArray[np.float64]]) -> Result:
    """The estimated noise in the cloud's unit and relative to its bounding sphere.

    Thinning does not change the noise, so a part of a large cloud is enough.
    """
    import numpy as np

    from pdflow.noise.estimate import estimate_noise

    estimate = estimate_noise(np.concatenate(chunks))
    return {
        "noise": estimate.sigma,
        "relative_noise": estimate.relative,
        "noise_is_reliable": estimate.reliable,
    }


class _Survey:
    """What one pass over the chunks of a cloud collects.

    low, high      (3,) extent
    attributes     name -> dtype, width, min and max (one per column where width > 0)
    sample_points  (S, 3) random points, the same ones for any chunk size
    sample_rows    (S,) their rows in the cloud
    held           all points in chunks, or None once there are too many
    """

    def __init__(self) -> None:
        import numpy as np

        self.count = 0
        self.low, self.high = np.full(3, np.inf), np.full(3, -np.inf)
        self.attributes: dict[str, Result] = {}
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
        self._draw(chunk.points)
        self.count += len(chunk)
        if self.held is not None:
            self.held.append(chunk.points)
            if self.count > POINTS_HELD:
                self.held = None

    def _draw(self, points: NDArray[np.float64]) -> None:
        """Keep the points with the smallest random keys: a uniform sample of a stream."""
        import numpy as np

        keys = np.concatenate([self._sample_keys, self._random.random(len(points))])
        kept = np.sort(np.argsort(keys, kind="stable")[:SPACING_SAMPLE])
        rows = np.arange(self.count, self.count + len(points))
        self._sample_keys = keys[kept]
        self.sample_rows = np.concatenate([self.sample_rows, rows])[kept]
        self.sample_points = np.concatenate([self.sample_points, points])[kept]


class _Spacing:
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
        described[key] = _plain(extreme)
    return described


def _extent(low: NDArray[np.float64], high: NDArray[np.float64]) -> Result:
    return {"min": low.tolist(), "max": high.tolist(), "size": (high - low).tolist()}


def _plain(value: Any) -> Any:
    """Metadata as JSON types; long binary values are replaced by their size."""
    import numpy as np

    if isinstance(value, (np.ndarray, np.generic)):
        if value.dtype.kind in "biufU" and value.size <= 16:
            return _plain(value.tolist())
        return f"array of {value.dtype} {value.shape}"
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, bytes):
        return f"{len(value)} bytes"
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    return value if value is None or isinstance(value, (str, int)) else str(value)


def _describe(result: Result) -> str:
    """The text for people: a title, then one labelled block per subject."""
    blocks: list[tuple[str, list[str]]] = [
        (key, [str(result[key])]) for key in ("points", "vertices", "faces") if key in result
    ]
    if result.get("dropped"):
        blocks.append(("dropped", [f"{result['dropped']} NaN or infinite"]))
    if "size" in result:
        rows = zip("xyz", result["min"], result["max"], result["size"], strict=True)
        blocks.append(("extent", [f"{x}  {a:.12g} to {b:.12g}  ({c:.6g})" for x, a, b, c in rows]))
    for key in ("spacing", "area"):
        if result.get(key) is not None:
            blocks.append((key, [f"{result[key]:.6g}"]))
    if "noise" in result:
        share = f"{100 * result['relative_noise']:.3g} % of the bounding sphere's radius"
        doubt = "" if result["noise_is_reliable"] else "; rough because there are few points"
        blocks.append(("noise", [f"{result['noise']:.6g}, estimated ({share}{doubt})"]))
    attributes = result.get("attributes", {})
    if attributes:
        longest = max(map(len, attributes))
        lines = [f"{name:{longest}}  {_range(a)}" for name, a in attributes.items()]
        blocks.append(("attributes", lines))
    if result.get("crs"):
        blocks.append(("crs", [_shortened(result["crs"])]))
    if result.get("metadata"):
        entries = result["metadata"].items()
        blocks.append(("metadata", [_shortened(f"{k}  {json.dumps(v)}") for k, v in entries]))
    text = [f"{result['file']}: {result['kind']} ({result['format']})"]
    for label, lines in blocks:
        text += [f"  {label if not i else '':10}  {line}" for i, line in enumerate(lines)]
    return "\n".join(text)


def _range(attribute: Result) -> str:
    dtype = (
        f"{attribute['dtype']} x {attribute['width']}" if attribute["width"] else attribute["dtype"]
    )
    low, high = attribute["min"], attribute["max"]
    if isinstance(low, list):
        low = min((v for v in low if v is not None), default=None)
        high = max((v for v in high if v is not None), default=None)
    return dtype if low is None else f"{dtype:12}  {_number(low)} to {_number(high)}"


def _number(value: Any) -> str:
    return f"{value:.9g}" if isinstance(value, float) else str(value)


def _shortened(text: str) -> str:
    line = " ".join(str(text).split())
    return line if len(line) <= 80 else f"{line[:77]}..."
