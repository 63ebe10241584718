"""`pdflow info`: what is in a file."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pdflow.cli.files import expand_inputs, naming, open_finite
from pdflow.cli.options import AsJson, DropNonfinite, InputFormat, Inputs, option
from pdflow.cli.progress import Result, say_results
from pdflow.cli.survey import Density, Spacing, Survey, plain
from pdflow.errors import PdflowError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

NAME = "info"

NOISE_KINDS = {
    "independent": "independent from point to point",
    "correlated": "correlated between neighbours, as in depth cameras or badly registered scans",
    "unclear": "of unclear kind: it may be correlated, and some of it may be fine detail",
    "none": "next to none",
}
"""What the kinds of a noise estimate mean."""


def run(
    inputs: Inputs,
    format: InputFormat = None,
    drop_nonfinite: DropNonfinite = False,
    noise: Annotated[bool, option("--noise", "Estimate the noise of clouds as well.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show what is in clouds and meshes.

    Clouds: points, extent, spacing, density, classes, attributes with their ranges, CRS, metadata.
    Meshes: vertices, faces, area, extent.
    The spacing is the median distance to the nearest other point, the density that of the ground
    (x and y) that the cloud covers. Files are read in chunks if their format allows it, so they
    need not fit in memory. A file that cannot be read does not stop the others.
    """
    results, failed = [], []
    paths = expand_inputs(inputs)
    for path in paths:
        try:
            results.append(_inspect(path, format, drop_nonfinite, noise))
        except PdflowError as error:
            if len(paths) == 1:
                raise
            failed.append(str(error))
        else:
            if not as_json:
                say_results(results[-1:], as_json, _describe)
    if as_json:
        say_results(results, as_json, _describe)
    if failed:
        for sentence in failed:
            typer.echo(f"error: {sentence}", err=True)
        raise PdflowError(f"{len(failed)} of {len(paths)} files could not be read: see above.")


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
    from pdflow.io.las.crs import epsg_codes

    survey = Survey()
    with open_finite(path, format, drop) as chunks:
        for chunk in chunks:
            survey.add(chunk)
        header, dropped = chunks.header, chunks.dropped
    crs = header.metadata.get("crs")
    spacing = Spacing(survey.sample_points, survey.sample_rows)
    density = Density(survey.low, survey.high, survey.count)
    thinned = survey.held or []
    if survey.held is not None:
        with naming(path):
            spacing.add(survey.held)
        for points in survey.held:
            density.add(points)
    else:
        with open_finite(path, format, drop) as chunks:
            for chunk in chunks:
                with naming(path):
                    spacing.add([chunk.points])
                density.add(chunk.points)
                if noise:
                    thinned.append(chunk.points[:: survey.thinning])
    return {
        "kind": "cloud",
        "points": survey.count,
        "dropped": dropped,
        **_extent(survey.low, survey.high),
        "spacing": spacing.median(),
        "density": density.value(),
        **(_noise(thinned, survey.attributes) if noise else {}),
        "attributes": survey.attributes,
        "classes": survey.classes,
        "epsg": epsg_codes(crs) if isinstance(crs, str) else None,
        "crs": plain(crs),
        "metadata": {k: plain(v) for k, v in header.metadata.items() if k != "crs"},
    }


def _noise(chunks: list[NDArray[np.float64]], attributes: dict[str, Result]) -> Result:
    """The estimated noise in the cloud's unit and relative to its bounding sphere.

    Thinning does not change the noise, so a part of a large cloud is enough.
    """
    import numpy as np

    from pdflow.noise.estimate import estimate_noise
    from pdflow.pipeline.survey import exceeds_lasers

    estimate = estimate_noise(np.concatenate(chunks))
    returns = attributes.get("number_of_returns", {}).get("max")
    returns = returns if isinstance(returns, int | float) else 0  # no points, or several columns
    return {
        "noise": estimate.sigma,
        "relative_noise": estimate.relative,
        "noise_is_reliable": estimate.reliable,
        "noise_kind": estimate.kind,
        "noise_error": estimate.error,
        "noise_is_plausible": not exceeds_lasers(returns, estimate.sigma),
    }


def _extent(low: NDArray[np.float64], high: NDArray[np.float64]) -> Result:
    return {"min": low.tolist(), "max": high.tolist(), "size": (high - low).tolist()}


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
    if result.get("density") is not None:
        blocks.append(("density", [f"{result['density']:.4g} points per square unit of ground"]))
    if "noise" in result:
        blocks.append(("noise", _describe_noise(result)))
    attributes = result.get("attributes", {})
    if attributes:
        longest = max(map(len, attributes))
        lines = [f"{name:{longest}}  {_range(a)}" for name, a in attributes.items()]
        blocks.append(("attributes", lines))
    if result.get("classes"):
        counts = result["classes"].items()
        blocks.append(("classes", [f"{code:>3}  {n}  {_class_name(code)}" for code, n in counts]))
    if result.get("epsg"):
        blocks.append(("epsg", [result["epsg"].removeprefix("EPSG:")]))
    if result.get("crs"):
        blocks.append(("crs", [_shortened(result["crs"])]))
    if result.get("metadata"):
        entries = result["metadata"].items()
        blocks.append(("metadata", [_shortened(f"{k}  {json.dumps(v)}") for k, v in entries]))
    text = [f"{result['file']}: {result['kind']} ({result['format']})"]
    for label, lines in blocks:
        text += [f"  {label if not i else '':10}  {line}" for i, line in enumerate(lines)]
    return "\n".join(text)


def _class_name(code: str) -> str:
    from pdflow.io.las.classes import CLASS_NAMES

    return CLASS_NAMES.get(int(code), "reserved" if int(code) < 64 else "user defined")


def _describe_noise(result: Result) -> list[str]:
    """The level, then how sure it is and which kind."""
    share = f"{100 * result['relative_noise']:.3g} % of the bounding sphere's radius"
    lines = [f"{result['noise']:.6g}, estimated ({share})"]
    if not result["noise_is_reliable"]:
        return [*lines, "rough because there are few points"]
    if not result["noise_is_plausible"]:
        return [*lines, "no laser scanner has that much: points lie too far apart for an estimate"]
    if result["noise_kind"] != "none":
        lines.append(f"typical error: a factor of {math.exp(result['noise_error']):.2f}")
    return [*lines, NOISE_KINDS[result["noise_kind"]]]


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
