"""Progress of a run whose stages report on their own."""

from __future__ import annotations

from collections.abc import Callable

from pdflow.backends import Progress

Stage = Callable[[str], None]
"""Called with the name of a stage when it begins."""


def scaled(progress: Progress, scale: float) -> Progress:
    """The progress of a stage that is the share `scale` of the whole."""
    return lambda share: progress(scale * share)
