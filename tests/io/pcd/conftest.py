"""PCD files made by hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest


def make_header(**changes: str | None) -> bytes:
    """A header for two points of x, y, z with some lines changed, or left out if None."""
    lines: dict[str, str | None] = {
        "VERSION": "0.7",
        "FIELDS": "x y z",
        "SIZE": "4 4 4",
        "TYPE": "F F F",
        "COUNT": "1 1 1",
        "WIDTH": "2",
        "HEIGHT": "1",
        "VIEWPOINT": "0 0 0 1 0 0 0",
        "POINTS": "2",
        "DATA": "ascii",
        **changes,
    }
    text = "".join(f"{key} {value}\n" for key, value in lines.items() if value is not None)
    return b"# .PCD v.7 - Point Cloud Data file format\n" + text.encode()


@pytest.fixture
def header() -> Callable[..., bytes]:
    """Makes the header of a small PCD file."""
    return make_header


@pytest.fixture
def pcd_file(tmp_path: Path) -> Callable[[bytes], Path]:
    """Writes a PCD file with some content and gives its path."""

    def write(data: bytes) -> Path:
        (tmp_path / "cloud.pcd").write_bytes(data)
        return tmp_path / "cloud.pcd"

    return write
