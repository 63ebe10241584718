"""Progress of a run whose stages report on their own, and how a caller hears of it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from pdflow.backends import Progress

Listener: TypeAlias = Callable[[float], object]
"""Is called with the share of all work that is done, from 0 to 1; raising ends the run."""

Stage = Callable[[str], None]
"""Called with the name of a stage when it begins."""


def scaled(progress: Progress, scale: float) -> Progress:
    """The progress of a stage that is the share `scale` of the whole."""
    return lambda share: progress(scale * share)


@contextmanager
def reporting(progress: Listener | bool | None) -> Iterator[Progress]:
    """What the stages of a run call with the share done since the last call.

    progress  is called with the share done in all; True shows a bar, and None or False nothing

    >>> heard = []
    >>> with reporting(heard.append) as advance:
    ...     advance(0.25)
    ...     advance(0.5)
    >>> heard
    [0.0, 0.25, 0.75, 1.0]
    """
    if progress is None or progress is False:
        yield lambda share: None
        return
    if progress is True:
        with _notebook_bar() if _in_notebook() else _terminal_bar() as show, reporting(show) as bar:
            yield bar
        return
    done = 0.0

    def advance(share: float) -> None:
        nonlocal done
        done = min(done + share, 1.0)
        progress(done)

    progress(0.0)
    yield advance
    if done < 1.0:  # shares are rounded
        progress(1.0)


def _in_notebook() -> bool:
    """Whether a notebook shows what this process displays."""
    ipython: Any = sys.modules.get("IPython")
    return ipython is not None and hasattr(ipython.get_ipython(), "kernel")


@contextmanager
def _notebook_bar() -> Iterator[Listener]:
    display: Any = import_module("IPython.display")
    bar = display.ProgressBar(total=100)
    bar.display()

    def show(done: float) -> None:
        if int(100 * done) > bar.progress:  # each change is a message to the browser
            bar.progress = int(100 * done)

    yield show


@contextmanager
def _terminal_bar() -> Iterator[Listener]:
    from rich.console import Console
    from rich.progress import Progress as Bar

    with Bar(console=Console(stderr=True)) as bar:
        task = bar.add_task("denoise", total=1.0)
        yield lambda done: bar.update(task, completed=done)
