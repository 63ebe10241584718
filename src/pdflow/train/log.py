"""The log of a run: lines of JSON, and the same figures as curves."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pdflow.io.atomic import atomic_path
from pdflow.lazy import install_hint

LOG, CURVES = "log.jsonl", "curves.png"
_PLACE = ("step", "seconds", "share")


class RunLog:
    """Appends figures to log.jsonl in a folder, and draws them.

    say  prints a sentence for the user

    With the extra `train`, curves are in curves.png and in TensorBoard; without it one sentence
    says so.
    """

    def __init__(self, folder: Path, say: Callable[[str], None]) -> None:
        self._path = folder / LOG
        self._board: Any = None
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            say(
                f"TensorBoard is not installed, so figures go to {self._path} only: "
                f"{install_hint('train')} brings it."
            )
        else:
            self._board = SummaryWriter(str(folder))

    def __call__(self, line: dict[str, float]) -> None:
        """Append one line: "step", other progress, and figures by name; NaN becomes null."""
        known = {name: value if math.isfinite(value) else None for name, value in line.items()}
        with self._path.open("a") as file:
            file.write(json.dumps(known) + "\n")
        if self._board is None:
            return
        group = "validation" if "validation" in line else "train"
        for name, value in line.items():
            if name not in _PLACE:
                self._board.add_scalar(f"{group}/{name}", value, line["step"])

    def draw(self) -> None:
        """Draw the whole log of the folder, earlier runs included, if matplotlib is there."""
        try:
            from matplotlib.figure import Figure
        except ImportError:
            return
        lines = [json.loads(line) for line in self._path.read_text().splitlines()]
        figure = Figure(figsize=(10, 4), layout="constrained")
        panels = figure.subplots(1, 2)
        _plot(panels[0], "training", lines, ["loss"])
        validated = [line for line in lines if "validation" in line]
        names = [name for name in (validated or [{}])[-1] if "@" in name]
        _plot(panels[1], "validation (doing nothing: 1)", validated, names)
        with atomic_path(self._path.with_name(CURVES)) as temporary:
            figure.savefig(temporary, format="png")

    def close(self) -> None:
        """Flush what TensorBoard still holds in memory."""
        if self._board is not None:
            self._board.close()


def _plot(axes: Any, title: str, lines: list[dict[str, Any]], names: list[str]) -> None:
    """Curves of figures by name over the steps of a run; what is not finite leaves a gap."""
    for name in names:
        found = [line for line in lines if line.get(name) is not None]
        axes.plot([line["step"] for line in found], [line[name] for line in found], label=name)
    axes.set(title=title, xlabel="step", yscale="log")
    axes.grid(alpha=0.3)
    if names:
        axes.legend()
