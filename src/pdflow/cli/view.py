"""`pdflow view`: clouds in the browser, or as one HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pdflow.cli.browser import NoOpen, serve
from pdflow.cli.files import expand_inputs, read_cloud
from pdflow.cli.options import DropNonfinite, InputFormat, Inputs, option
from pdflow.errors import PdflowError

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
        int | None,
        option("--points N", "Thin clouds with more points to N; default: 2,000,000.", min=1),
    ] = None,
    no_open: NoOpen = False,
    format: InputFormat = None,
    drop_nonfinite: DropNonfinite = False,
) -> None:
    """Show clouds before and after in the browser.

    The first cloud is before, the second after, both under one camera. The page is served to this
    machine only, until Ctrl-C. With -o it becomes one file that needs nothing else, neither pdflow
    nor a network.
    """
    if output is not None and output.suffix.lower() not in (".html", ".htm"):
        raise PdflowError(f"{output}: a page is HTML: choose a name that ends in .html.")
    from pdflow.viewer.scene import MOST_POINTS, build_scene
    from pdflow.viewer.show import Page

    paths = expand_inputs(inputs)
    clouds = [(path.name, read_cloud(path, format, drop_nonfinite)) for path in paths]
    truth = None
    if clean is not None:
        truth = read_cloud(expand_inputs([str(clean)])[0], None, drop_nonfinite).points
    scene = build_scene(clouds, truth, points or MOST_POINTS)
    for path, cloud in zip(paths, scene.clouds, strict=True):
        if len(cloud.points) < cloud.total:
            typer.echo(f"{path}: {len(cloud.points)} of {cloud.total} points are shown.", err=True)
    page = Page(scene)
    if output is None:
        from pdflow.viewer.serve import PageServer

        with PageServer(page) as server:
            serve(server.url, server.serve_forever, no_open)
    else:
        page.save(output)
        typer.echo(f"{output}: {output.stat().st_size / 1e6:.1f} MB, open it in a browser.")
