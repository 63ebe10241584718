"""`pdflow info`: what is in a file."""

from __future__ import annotations

from pathlib import Path

import typer

NAME = "info"


def run(
    file: Path = typer.Argument(..., help="Cloud to look at."),
) -> None:
    """Show points, extent and attributes of a cloud."""
    from pdflow.io import read

    cloud = read(file)
    typer.echo(f"{file}: {len(cloud)} points")
