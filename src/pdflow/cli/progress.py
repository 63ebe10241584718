"""What a command prints: a progress bar (on a terminal only), and its result at the end."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import Any

import typer

Result = dict[str, Any]
"""The result of one input: JSON types only, keys in reading order."""

WATCHED = 3.0
"""Seconds of work after which the time to go can be told."""

LONG = 60.0
"""Seconds to go from which on a run is long enough to say so."""


class Steps:
    """Work that is under way: call it with the steps just done.

    what       name of the work, such as that of a file
    total      steps of all of it
    estimates  whether to print the time to go once, for runs that take minutes
    advice     what is said with it
    """

    def __init__(self, what: str, total: float | None, estimates: bool, advice: str = "") -> None:
        self.what, self._advice = what, advice
        self._total, self._estimates = total, estimates
        self._done = self._done_before = 0.0
        self._begun: float | None = None

    def __call__(self, steps: float) -> None:
        """Count steps that were done."""
        self._done += steps
        if not self._estimates or self._total is None:
            return
        now = monotonic()
        if self._begun is None:
            # The time before the first step is that of other stages.
            self._begun, self._done_before = now, self._done
        elif now - self._begun >= WATCHED and self._done > self._done_before:
            self._estimates = False
            speed = (self._done - self._done_before) / (now - self._begun)
            to_go = (self._total - self._done) / speed
            if to_go >= LONG:
                self.say(f"{self.what}: about {round(to_go / 60)} min to go{self._advice}")

    def stage(self, name: str) -> None:
        """Say which stage of the work begins."""

    def say(self, line: str) -> None:
        """Print a line on stderr."""
        typer.echo(line, err=True)


@contextmanager
def progress(
    what: str, total: float | None, *, estimates: bool = False, advice: str = ""
) -> Iterator[Steps]:
    """A bar with stage and remaining time on stderr, for work of `total` steps.

    Without a terminal there is no bar. A `total` of None shows activity without an end.
    """
    if not sys.stderr.isatty():
        yield Steps(what, total, estimates, advice)
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn
    from rich.progress import TimeRemainingColumn as TimeRemaining

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemaining())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total)

        class Shown(Steps):
            def __call__(self, steps: float) -> None:
                super().__call__(steps)
                bar.advance(task, steps)

            def stage(self, name: str) -> None:
                bar.update(task, description=f"{what}: {name}", refresh=True)

            def say(self, line: str) -> None:
                bar.console.print(line, highlight=False, markup=False)

        yield Shown(what, total, estimates, advice)


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
