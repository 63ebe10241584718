"""`pdflow latent`: what the channels of a latent code do to a patch."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from pdflow.cli.files import read_finite
from pdflow.cli.options import AsJson, DropNonfinite, InputFormat, option
from pdflow.cli.progress import Result, say_results
from pdflow.errors import PdflowError

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
            "Shipped model or weight file, whose filter is a mask unless there is --clean; "
            "default: the first shipped one with a mask.",
        ),
    ] = None,
    clean: Annotated[
        Path | None,
        option(
            "--clean CLEAN",
            "The same rows without noise: show the noise of every channel instead.",
        ),
    ] = None,
    row: Annotated[int, option("--row ROW", "Row of the point at the centre of the patch.")] = 0,
    delta: Annotated[float, option("--delta X", "Offset added to every channel.")] = 1.0,
    format: InputFormat = None,
    drop_nonfinite: DropNonfinite = False,
    as_json: AsJson = False,
) -> None:
    """Draw what the latent code of a patch holds.

    Four patches, decoded from four codes, stand side by side.
    From left to right: [z_p, z_n], the noisy patch; [z_p, z_c], denoised; [z_p + o, z_c] and
    [z_p, z_c + o], with an offset in the kept and in the masked channels. Each is drawn in its own
    frame. Colours show the distance of the points to the denoised patch after removing a common
    shift.

    With --clean, curves show the energy of every channel in clean and noisy codes, and CD while
    channels are taken out one by one.
    """
    import numpy as np

    from pdflow.bench.latent import latent_experiment, masked_model

    if clean is not None:
        if (row, delta) != (0, 1.0):
            raise PdflowError("--row and --delta do not go with --clean: leave them out.")
        _channels(source, clean, output, model, format, drop_nonfinite, as_json)
        return
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


def _channels(
    source: Path,
    clean: Path,
    output: Path,
    model: str | None,
    format: str | None,
    drop_nonfinite: bool,
    as_json: bool,
) -> None:
    from pdflow.bench.channels import channel_experiment, draw_channels
    from pdflow.bench.latent import masked_model
    from pdflow.weights import load_model

    network = masked_model(None) if model is None else load_model(model)
    clouds = [read_finite(path, format, drop_nonfinite)[0] for path in (source, clean)]
    found = channel_experiment(network, *(cloud.points for cloud in clouds))
    draw_channels(found, output)
    say_results([asdict(each) for each in found], as_json, _describe_channel)
    if not as_json:
        typer.echo(f"{output}: energies of the channels, and CD as they are taken out.")


def _describe_channel(result: Result) -> str:
    return (
        f"channel {result['channel']:>3}: energy {result['clean']:.3g} clean, "
        f"{result['noisy']:.3g} noisy, {result['noise']:.3g} of their difference; CD left "
        f"{result['masked']:.3f} set to zero up to here, {result['filtered']:.3f} filtered"
    )


def _describe(result: Result) -> str:
    return (
        f"{result['code']:<15} moved by {result['moved']:.4g} patch radii, "
        f"{100 * result['common']:.0f} % of it as a common shift"
    )
