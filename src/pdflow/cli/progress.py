"""What a command prints: a progress bar (on a terminal only), and its result at the end."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import typer

Result = dict[str, Any]
"""The result of one input: JSON types only, keys in reading order."""


@contextmanager
def progress(what: str, total: float | None) -> Iterator[Callable[[float], None]]:
    """A bar with the remaining time on stderr; call what it yields with the steps just done.

    Nothing is shown if stderr is not a terminal. A `total` of None shows activity without an end.
    """
    if not sys.stderr.isatty():
        yield lambda steps: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn
    from rich.progress import TimeRemainingColumn as TimeRemaining

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemaining())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda steps: bar.advance(task, steps)


def say_results(
    results: Sequence[Result], as_json: bool, describe: Callable[[Result], str]
) -> None:
    """Print results on stdout: as JSON (one object for one input, else a list), or as text."""
    if as_json:
        value = results[0] if len(results) == 1 else list(results)
        typer.echo(json.dumps(value, indent=2, allow_nan=False))
        return
    for result in results:
        typer.echo(describe(result))
