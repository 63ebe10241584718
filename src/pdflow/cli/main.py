"""Entry point: find the subcommand, run it, and turn errors into one sentence and an exit code.

Exit codes: 0 done, 1 unexpected error, 2 bad input or bad usage, 130 stopped by Ctrl-C or SIGTERM.
Nothing here or at the top of a command's file imports numpy, scipy, numba or torch, so that
`pdflow --help` answers at once.
"""

from __future__ import annotations

import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

import typer

from pdflow import __version__
from pdflow.cli import (
    STOPPED,
    STOPPED_SENTENCE,
    bench,
    convert,
    denoise,
    evaluate,
    info,
    latent,
    noise,
    sample,
    train,
    view,
)
from pdflow.cli import app as app_command
from pdflow.cli.weights import export, import_weights
from pdflow.errors import LossWarning, PdflowError

COMMANDS = (
    denoise,
    app_command,
    view,
    info,
    convert,
    noise,
    sample,
    evaluate,
    train,
    import_weights,
    export,
    bench,
    latent,
)

DONE, BROKEN, BAD_INPUT = 0, 1, 2

# The parent of BadParameter is click's UsageError. Newer releases of typer carry their own copy
# of it under a private name; older ones take it from click.
USAGE_ERROR: type[Any] = typer.BadParameter.__mro__[1]

app = typer.Typer(
    name="pdflow",
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in COMMANDS:
    app.command(name=command.NAME)(command.run)


def _version(show: bool) -> None:
    if show:
        typer.echo(f"pdflow {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Show the version and exit."
    ),
    debug: bool = typer.Option(
        False, "--debug", help="Show the traceback of an error; works anywhere on the line."
    ),
) -> None:
    """Point cloud denoising with normalizing flows."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line `arguments` (by default `sys.argv`) and return the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug, words = _take_debug(words)
    with warnings.catch_warnings():
        warnings.simplefilter("always", LossWarning)
        warnings.showwarning = _WarningPrinter(debug)
        try:
            with _terminated_like_interrupted():
                code = app(args=words or ["--help"], prog_name="pdflow", standalone_mode=False)
            return _say_stopped() if code == STOPPED else int(code or DONE)
        except PdflowError as error:
            return _say_error(str(error), BAD_INPUT, debug)
        except USAGE_ERROR as error:
            return _say_error(_usage_sentence(error), BAD_INPUT, debug)
        except KeyboardInterrupt:
            return _say_stopped()
        except typer.Abort as error:
            # typer raises it for Ctrl-C and also for an EOFError, which is a bug like others.
            if isinstance(error.__cause__, EOFError):
                return _say_bug(error.__cause__, debug)
            return _say_stopped()
        except MemoryError as error:
            what = f" ({error})" if str(error) else ""
            return _say_error(f"This needs more memory than there is{what}.", BROKEN, debug)
        except Exception as error:
            return _say_bug(error, debug)


@contextmanager
def _terminated_like_interrupted() -> Iterator[None]:
    """Let SIGTERM end a command like Ctrl-C, which leaves no unfinished file behind."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    stop.ends_commands = True  # type: ignore[attr-defined]
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _take_debug(words: list[str]) -> tuple[bool, list[str]]:
    """Whether `--debug` occurs before any `--`, and the words without it."""
    end = words.index("--") if "--" in words else len(words)
    kept = [word for word in words[:end] if word != "--debug"]
    return len(kept) < end, kept + words[end:]


def _say_error(sentence: str, code: int, debug: bool) -> int:
    """Print one line on stderr, after the traceback if `debug` is set, and return `code`."""
    if debug:
        traceback.print_exc()
    typer.echo(f"error: {' '.join(sentence.split())}", err=True)
    return code


def _say_bug(error: Exception, debug: bool) -> int:
    what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    hint = "this is a bug in pdflow: add --debug to see where it happened, and report it."
    return _say_error(f"{what}; {hint}", BROKEN, debug)


def _say_stopped() -> int:
    typer.echo(STOPPED_SENTENCE, err=True)
    return STOPPED


def _usage_sentence(error: Any) -> str:
    """A usage error as one sentence that points to the help text."""
    message = error.format_message().strip().rstrip(".")
    where = error.ctx.command_path if error.ctx else "pdflow"
    return f"{message} (see `{where} --help`)."


class _WarningPrinter:
    """Prints each LossWarning once, as one line; other warnings only for `--debug`."""

    def __init__(self, debug: bool) -> None:
        self._debug = debug
        self._seen: set[str] = set()

    def __call__(
        self, message: Warning | str, category: type[Warning], *place: Any, **_: Any
    ) -> None:
        text = " ".join(str(message).split())
        if text in self._seen:
            return
        self._seen.add(text)
        if issubclass(category, LossWarning):
            typer.echo(f"warning: {text}", err=True)
        elif self._debug:
            where = ":".join(str(part) for part in place[:2])
            typer.echo(f"warning: {category.__name__} at {where}: {text}", err=True)


if __name__ == "__main__":
    sys.exit(main())
