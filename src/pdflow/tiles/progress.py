"""Progress of a run over tiles: what is done, how fast, and how long it will take."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from pdflow.tiles.stages import LIMIT, OUTLIERS, SCALES

INDEX, WRITE = "index", "write"
WEIGHTS = {INDEX: 0.03, OUTLIERS: 0.05, LIMIT: 0.1, WRITE: 0.05}
"""Time of a stage over that of a pass through the network, about."""

TWO_SCALES = 2.0
"""The same for both answers of a first pass with two scales."""


@dataclass(frozen=True)
class Step:
    """A moment of a run.

    stage              "index", "outliers", "scales", "pass-1", ..., "limit" or "write"
    tiles, of          done in this stage, and all
    points             done in this stage
    share              of the whole run, 0 to 1
    points_per_second  of this attempt so far, over all stages; 0 if not known
    seconds_left       at that speed; None if not known
    """

    stage: str
    tiles: int
    of: int
    points: int
    share: float
    points_per_second: float
    seconds_left: float | None

    def as_dict(self) -> dict[str, Any]:
        """The step as JSON types."""
        return asdict(self)


StepListener = Callable[[Step], None]


class Clock:
    """Turns work that is done into steps.

    points    of the cloud; 0 while that is not known
    listener  is called with every step
    """

    def __init__(self, points: int, listener: StepListener | None) -> None:
        self.points, self.passes = points, 1.0
        self._listener = listener
        self._start = time.monotonic()
        self._before = self._done = 0.0
        self._stage, self._in_stage, self._tiles, self._of = INDEX, 0, 0, 1

    def begin(self, stage: str, tiles: int = 1) -> None:
        """A stage begins."""
        self._stage, self._in_stage, self._tiles, self._of = stage, 0, 0, tiles

    def skip(self, points: int, tiles: int = 1) -> None:
        """Some of the stage was done by an earlier attempt."""
        self._before += points * self._weight()
        self._in_stage += points
        self._tiles += tiles

    def advance(self, points: float, tiles: int = 0) -> None:
        """Some of the stage is done now."""
        self._done += points * self._weight()
        self._in_stage += int(points)
        self._tiles += tiles
        if self._listener is not None:
            self._listener(self.step())

    def step(self) -> Step:
        """This moment."""
        work = sum(WEIGHTS.values()) + self.passes
        total = self.points * work
        seconds = time.monotonic() - self._start
        done = min(self._before + self._done, total)
        speed = self._done / seconds if seconds > 0 else 0.0
        left = (total - done) / speed if speed > 0 and total > 0 else None
        share = done / total if total > 0 else 0.0
        return Step(
            self._stage, self._tiles, self._of, self._in_stage, share, speed / work, left
        )  # fmt: skip

    def _weight(self) -> float:
        return TWO_SCALES if self._stage == SCALES else WEIGHTS.get(self._stage, 1.0)
