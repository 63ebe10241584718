"""Any valid PLY file, drawn at random: read, written again, or damaged and refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pdflow import PointCloud, open_reader, read, write
from pdflow.io.ply.ascii import encode_ascii
from pdflow.io.ply.binary import encode_binary
from pdflow.io.ply.header import TYPES, Element, PlyHeader, Property

FORMATS = ("ascii", "binary_little_endian", "binary_big_endian")
ORDERS: dict[str, Any] = {"ascii": "=", "binary_little_endian": "<", "binary_big_endian": ">"}
property_types = st.sampled_from(sorted(TYPES))
words = st.text("abcxyz_", min_size=1, max_size=3)


@st.composite
def ply_files(draw: st.DrawFn) -> tuple[bytes, str, list[Element], dict[str, Any]]:
    """A valid file: its bytes, format, elements and tables."""
    format = draw(st.sampled_from(FORMATS))
    elements, tables = [], {}
    names = ["vertex", *draw(st.lists(words.map("e_{}".format), max_size=2, unique=True))]
    for name in draw(st.permutations(names)):
        count = draw(st.integers(0 if name != "vertex" else 1, 4))
        properties, table = [], {}
        for p in draw(st.lists(words.map("p{}".format), max_size=4, unique=True)):
            dtype = TYPES[draw(property_types)]
            numbers = st.integers(0, 100)
            if draw(st.booleans()):
                counts = draw(st.lists(st.integers(0, 3), min_size=count, max_size=count))
                values = draw(st.lists(numbers, min_size=sum(counts), max_size=sum(counts)))
                properties.append(Property(p, dtype, np.dtype("u1")))
                table[p] = {"counts": np.array(counts, "u1"), "values": np.array(values, dtype)}
            else:
                properties.append(Property(p, dtype))
                table[p] = np.array(draw(st.lists(numbers, min_size=count, max_size=count)), dtype)
        if name == "vertex":
            for axis in "xyz":
                properties.insert(
                    draw(st.integers(0, len(properties))), Property(axis, np.dtype("f4"))
                )
                table[axis] = np.arange(count, dtype=np.float32)
        elements.append(Element(name, count, tuple(properties)))
        tables[name] = table
    content = PlyHeader(format, elements, ["c"]).render()
    for e in elements:
        if format == "ascii":
            content += encode_ascii(e, tables[e.name]).encode()
        else:
            content += encode_binary(e, tables[e.name], ORDERS[format]).tobytes()
    return content, format, elements, tables


@settings(
    max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(ply_files(), st.sampled_from([1, 3, 100]))
def test_any_valid_file_is_read_and_written_again(
    tmp_path: Path,
    same_tree: Callable[[Any, Any], None],
    file: tuple[bytes, str, list[Element], dict[str, Any]],
    size: int,
) -> None:
    content, _, elements, tables = file
    path = tmp_path / "a.ply"
    path.write_bytes(content)
    with open_reader(path) as reader:
        cloud = PointCloud.concatenate(reader.chunks(size))
    count = next(e.count for e in elements if e.name == "vertex")
    assert cloud.points.tolist() == [[i, i, i] for i in range(count)]
    kept = cloud.metadata["ply"].get("elements", {})
    for e in elements:
        if e.name != "vertex":
            assert kept[e.name]["count"] == e.count
            same_tree(kept[e.name]["properties"], tables[e.name])
    write(tmp_path / "b.ply", cloud)
    back = read(tmp_path / "b.ply")
    same_tree(back.attributes, cloud.attributes)
    same_tree(back.metadata, cloud.metadata)


@settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(ply_files(), st.data())
def test_damage_gives_no_other_error(
    tmp_path: Path,
    read_or_refused: Callable[[Path], None],
    file: tuple[bytes, str, list[Element], dict[str, Any]],
    data: st.DataObject,
) -> None:
    content = bytearray(file[0])
    if data.draw(st.booleans()):
        del content[data.draw(st.integers(0, len(content))) :]
    for _ in range(data.draw(st.integers(0, 3))):
        if content:
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    (tmp_path / "a.ply").write_bytes(content)
    read_or_refused(tmp_path / "a.ply")
