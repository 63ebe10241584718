"""Points that come after their scan was written, on disk until the end."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdflow.io.e57.scan import Scan


class Spill:
    """Point fields of scans in a file without a name, which the system removes."""

    def __init__(self, folder: Path) -> None:
        self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115
        self._pieces: dict[int, list[tuple[int, int]]] = {}

    def add(self, scan: Scan, fields: Mapping[str, NDArray[Any]]) -> None:
        """Keep fields (M,) of a scan."""
        place, count = self._file.tell(), len(next(iter(fields.values())))
        self._pieces.setdefault(scan.number, []).append((place, count))
        for name, dtype in scan.types.items():
            self._file.write(np.ascontiguousarray(fields[name], dtype).data)

    def of(self, scan: Scan) -> Iterator[dict[str, NDArray[Any]]]:
        """What was kept of a scan, in its order."""
        for place, count in self._pieces.get(scan.number, ()):
            self._file.seek(place)
            yield {
                name: np.frombuffer(self._file.read(count * dtype.itemsize), dtype)
                for name, dtype in scan.types.items()
            }

    def close(self) -> None:
        """Remove the file."""
        self._file.close()
