"""`pdflow view`: clouds in the browser, or as one HTML file."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pdflow.cli.files import expand_inputs, naming, read_finite, say_dropped
from pdflow.cli.options import DropNonfinite, InputFormat, Inputs, option
from pdflow.errors import PdflowError

if TYPE_CHECKING:
    from pdflow.cloud import PointCloud
    from pdflow.viewer.show import Page

NAME = "view"


def run(
    inputs: Inputs,
    output: Annotated[
        Path | None,
        option("-o --output FILE.html", "Write one HTML file instead of opening a browser."),
    ] = None,
    clean: Annotated[
        Path | None,
        option("--clean FILE", "Clean cloud; points can be coloured by their distance to it."),
    ] = None,
    points: Annotated[
        int, option("--points N", "Clouds with more points are thinned to N.", min=1)
    ] = 2_000_000,
    no_open: Annotated[
        bool, option("--no-open", "Print the address without opening a browser.")
    ] = False,
    format: InputFormat = None,
    drop_nonfinite: DropNonfinite = False,
) -> None:
    """Show clouds in the browser: the first as before, the second as after, under one camera.

    The page is served to this machine only, until Ctrl-C. With -o it becomes one file that needs
    nothing else, neither pdflow nor a network.
    """
    if output is not None and output.suffix.lower() not in (".html", ".htm"):
        raise PdflowError(f"{output}: a page is HTML: choose a name that ends in .html.")
    from pdflow.viewer.scene import build_scene
    from pdflow.viewer.show import Page

    paths = expand_inputs(inputs)
    clouds = [(path.name, _read(path, format, drop_nonfinite)) for path in paths]
    truth = None
    if clean is not None:
        truth = _read(expand_inputs([str(clean)])[0], None, drop_nonfinite).points
    scene = build_scene(clouds, truth, points)
    for path, cloud in zip(paths, scene.clouds, strict=True):
        if len(cloud.points) < cloud.total:
            typer.echo(f"{path}: {len(cloud.points)} of {cloud.total} points are shown.", err=True)
    page = Page(scene)
    if output is None:
        _serve(page, no_open)
    else:
        page.save(output)
        typer.echo(f"{output}: {output.stat().st_size / 1e6:.1f} MB, open it in a browser.")


def _read(path: Path, format: str | None, drop: bool) -> PointCloud:
    with naming(path):
        cloud, dropped = read_finite(path, format, drop)
    if dropped:
        typer.echo(f"{path}: {len(cloud)} points{say_dropped(dropped)}", err=True)
    return cloud


def _serve(page: Page, no_open: bool) -> None:
    from pdflow.viewer.serve import PageServer

    with PageServer(page) as server:
        typer.echo(f"{server.url} (Ctrl-C ends it)")
        if not no_open:
            webbrowser.open(server.url)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            typer.echo("ended.", err=True)
