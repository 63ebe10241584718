"""`pdflow convert`: from one format to another."""

from __future__ import annotations

from pathlib import Path

import typer

NAME = "convert"


def run(
    source: Path = typer.Argument(..., help="Cloud to read."),
    target: Path = typer.Argument(..., help="File to write."),
) -> None:
    """Convert a cloud to another format."""
    from pdflow.io import read, require_finite, write

    write(target, require_finite(read(source), source))
