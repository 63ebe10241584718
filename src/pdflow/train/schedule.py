"""Learning rates: a warm-up, then a constant, a cosine, or the paper's plateau."""

from __future__ import annotations

import math
from typing import Any

from pdflow.train.recipe import OptimConfig

LEAST_GAIN = 1e-4
"""Relative improvement over the best validation error that counts as progress."""


class Schedule:
    """The learning rate of every step.

    "cosine" depends on the share of the run that is over, in steps or in minutes. "plateau"
    multiplies the rate by `factor` after more than `patience` validations without progress, as
    in the paper. "constant" stays.
    """

    def __init__(self, optim: OptimConfig) -> None:
        self.optim = optim
        self.factor = 1.0
        self.best = math.inf
        self.waited = 0

    def rate(self, step: int, share: float) -> float:
        """Rate of step `step` (from 0), after a `share` (0 to 1) of the run."""
        warm = min(1.0, (step + 1) / max(1, self.optim.warmup))
        fall = self.factor
        if self.optim.schedule == "cosine":
            fall = 0.5 * (1 + math.cos(math.pi * min(1.0, share)))
        return self.optim.lr * warm * fall

    def observe(self, error: float) -> None:
        """Record a validation error; only "plateau" uses it."""
        if self.optim.schedule != "plateau":
            return
        if error < self.best * (1 - LEAST_GAIN):
            self.best, self.waited = error, 0
            return
        self.waited += 1
        if self.waited > self.optim.patience:
            self.factor *= self.optim.factor
            self.waited = 0

    def state(self) -> dict[str, Any]:
        """The state for a checkpoint."""
        return {"factor": self.factor, "best": self.best, "waited": self.waited}

    def load(self, state: dict[str, Any]) -> None:
        """Restore a state."""
        self.factor, self.best, self.waited = state["factor"], state["best"], state["waited"]
