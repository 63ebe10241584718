"""Pages that a command serves to a browser on this machine until Ctrl-C."""

from __future__ import annotations

import webbrowser
from collections.abc import Callable
from typing import Annotated

import typer

from pdflow.cli.options import option

NoOpen = Annotated[bool, option("--no-open", "Print the address without opening a browser.")]


def serve(url: str, run: Callable[[], None], no_open: bool) -> None:
    """Print the address of a page, open it unless told not to, and `run` its server."""
    typer.echo(f"{url} (Ctrl-C ends it)")
    if not no_open:
        webbrowser.open(url)
    try:
        run()
    except KeyboardInterrupt:
        typer.echo("ended.", err=True)
