"""Entry point: find the subcommand, run it, turn errors into one sentence and an exit code.

Exit codes: 0 done, 1 something unexpected broke, 2 bad input or bad usage.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any

import typer

from pdflow import __version__
from pdflow.cli import convert, info
from pdflow.errors import LossWarning, PdflowError

app = typer.Typer(
    name="pdflow",
    help="Point cloud denoising with normalizing flows.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for command in (info, convert):
    app.command(name=command.NAME)(command.run)


def _version(show: bool) -> None:
    if show:
        typer.echo(f"pdflow {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True),
    debug: bool = typer.Option(False, "--debug", help="Show the traceback of an error."),
) -> None:
    """Point cloud denoising with normalizing flows."""


def _show_warning(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
    if issubclass(category, LossWarning):
        typer.echo(f"warning: {message}", err=True)


def main() -> None:
    """Run the command line. `--debug` is understood anywhere on it."""
    debug = "--debug" in sys.argv
    arguments = [a for a in sys.argv[1:] if a != "--debug"]
    warnings.showwarning = _show_warning
    warnings.simplefilter("always", LossWarning)
    try:
        app(args=arguments, prog_name="pdflow")
    except PdflowError as error:
        if debug:
            raise
        typer.echo(f"error: {error}", err=True)
        sys.exit(2)
    except KeyboardInterrupt:
        typer.echo("stopped: nothing was written.", err=True)
        sys.exit(130)
    except Exception as error:
        if debug:
            raise
        typer.echo(f"error: {type(error).__name__}: {error} (--debug shows where).", err=True)
        sys.exit(1)
