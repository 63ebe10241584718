"""Packed colours of PCD: every bit, name and type comes back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pdflow import PointCloud, read, write

Same = Callable[[PointCloud, PointCloud], None]
KINDS = ("ascii", "binary", "binary_compressed")
RNG = np.random.default_rng(0)
Header = Callable[..., bytes]
PcdFile = Callable[[bytes], Path]


RED_AND_CLEAR = np.array([0x00FF0000, 0x000102FE], "<u4")


OPAQUE = np.array([0xFFFF0000, 0x800102FE], "<u4")  # the first is NaN as a float


@pytest.fixture
def packed_file(header: Header, pcd_file: PcdFile) -> Callable[..., Path]:
    """Makes a file with a field of packed colours."""

    def make(bits: Any, name: str, code: str, kind: str = "binary") -> Path:
        head = header(
            FIELDS=f"x y z {name}", SIZE="4 4 4 4", TYPE=f"F F F {code}", COUNT="1 1 1 1", DATA=kind
        )
        if kind == "ascii":
            return pcd_file(head + b"".join(b"1 2 3 %s\n" % word for word in bits))
        rows = np.zeros(2, [("xyz", "<f4", 3), ("rgb", "<u4")])
        rows["rgb"] = bits
        return pcd_file(head + rows.tobytes())

    return make


@pytest.mark.parametrize("code", ["F", "U", "I"])
@pytest.mark.parametrize("name", ["rgb", "rgba"])
@pytest.mark.parametrize("bits", [RED_AND_CLEAR, OPAQUE])
def test_packed_colours_are_written_as_they_were(
    tmp_path: Path, bits: Any, name: str, code: str, packed_file: Callable[..., Path]
) -> None:
    path = packed_file(bits, name, code)
    cloud = read(path)
    assert cloud.attributes["colors"].tolist() == [[255, 0, 0], [1, 2, 254]]
    assert cloud.attributes["colors"].dtype == np.uint8
    if name == "rgba" or bits is OPAQUE:
        assert cloud.attributes["alpha"].tolist() == (bits >> 24).tolist()
    else:
        assert list(cloud.attributes) == ["colors"]
    write(tmp_path / "b.pcd", cloud)
    assert (tmp_path / "b.pcd").read_bytes() == path.read_bytes().replace(b"v.7", b"v0.7")


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("F", [b"2.3418052e-38", b"9.2908891e-41"]),
        ("F", [b"16711680", b"66302"]),  # an integer instead of a float
        ("U", [b"16711680", b"66302"]),
        ("I", [b"16711680", b"66302"]),
    ],
)
def test_packed_colours_in_text(
    tmp_path: Path, code: str, words: list[bytes], packed_file: Callable[..., Path]
) -> None:
    cloud = read(packed_file(words, "rgb", code, "ascii"))
    assert cloud.attributes["colors"].tolist() == [[255, 0, 0], [1, 2, 254]]
    write(tmp_path / "b.pcd", cloud)
    assert read(tmp_path / "b.pcd").attributes["colors"].tolist() == [[255, 0, 0], [1, 2, 254]]


@pytest.mark.parametrize("code", ["F", "U", "I"])
@pytest.mark.parametrize("name", ["rgb", "rgba"])
@pytest.mark.parametrize("kind", KINDS)
def test_all_bits_of_packed_colours_survive_every_kind(
    tmp_path: Path, kind: str, name: str, code: str, same_attributes: Same
) -> None:
    colors, alpha = RNG.integers(0, 256, (500, 3), np.uint8), RNG.integers(0, 256, 500, np.uint8)
    pcd = {"data": kind, "rgb": [name, code]}
    for attributes in ({"colors": colors}, {"colors": colors, "alpha": alpha}):
        cloud = PointCloud(RNG.normal(size=(500, 3)), attributes, {"pcd": pcd})
        write(tmp_path / "a.pcd", cloud)
        same_attributes(read(tmp_path / "a.pcd"), cloud)
