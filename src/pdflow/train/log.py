"""The log of a run: lines of JSON, and curves for TensorBoard."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

LOG = "log.jsonl"
_PLACE = ("step", "seconds", "share")


class RunLog:
    """Appends figures to log.jsonl in a folder, and to TensorBoard if it is installed.

    say  prints a sentence for the user
    """

    def __init__(self, folder: Path, say: Callable[[str], None]) -> None:
        self._path = folder / LOG
        self._board: Any = None
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            say(
                f"TensorBoard is not installed, so figures go to {self._path} only: "
                "pip install 'pdflow[train]' brings it."
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

    def close(self) -> None:
        """Flush what TensorBoard still holds in memory."""
        if self._board is not None:
            self._board.close()
