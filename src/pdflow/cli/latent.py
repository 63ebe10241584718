"""`pdflow latent`: what the kept and the masked channels of a latent code do to a patch."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pdflow.cli.files import read_finite
from pdflow.cli.options import AsJson, DropNonfinite, InputFormat, option
from pdflow.cli.progress import Result, say_results

NAME = "latent"
PANEL = (480, 480)
"""Pixels of one patch."""


def run(
    source: Annotated[Path, typer.Argument(help="Noisy cloud.", metavar="IN")],
    output: Annotated[Path, option("-o --output FILE.png", "PNG file to write.")],
    model: Annotated[
        str | None,
        option(
            "--model MODEL",
            "Shipped model or weight file whose filter is a mask; default: the first shipped one.",
        ),
    ] = None,
    row: Annotated[int, option("--row ROW", "Row of the point at the centre of the patch.")] = 0,
    delta: Annotated[float, option("--delta X", "Offset added to every channel.")] = 1.0,
    format: InputFormat = None,
    drop_nonfinite: DropNonfinite = False,
    as_json: AsJson = False,
) -> None:
    """Decode a patch from four codes, and draw it.

    The results stand side by side.
    From left to right: [z_p, z_n], the noisy patch; [z_p, z_c], denoised; [z_p + o, z_c] and
    [z_p, z_c + o], with an offset in the kept and in the masked channels. Each is drawn in its own
    frame. Colours show the distance of the points to the denoised patch after removing a common
    shift.
    """
    import numpy as np

    from pdflow.bench.latent import latent_experiment, masked_model
    from pdflow.render import Panel, render_panels

    cloud, _ = read_finite(source, format, drop_nonfinite)
    patches = latent_experiment(masked_model(model), cloud.points, row, delta)
    denoised = patches[1].points
    offsets = [patch.points - denoised for patch in patches]
    panels = [
        Panel(patch.points, np.linalg.norm(offset - offset.mean(0), axis=1))
        for patch, offset in zip(patches, offsets, strict=True)
    ]
    render_panels(panels, output, columns=len(panels), size=PANEL, same_frame=False)
    results: list[Result] = [
        {"code": patch.code, "moved": patch.moved, "common": patch.common} for patch in patches
    ]
    say_results(results, as_json, _describe)
    if not as_json:
        typer.echo(f"{output}: the four patches, from left to right.")


def _describe(result: Result) -> str:
    return (
        f"{result['code']:<15} moved by {result['moved']:.4g} patch radii, "
        f"{100 * result['common']:.0f} % of it as a common shift"
    )
