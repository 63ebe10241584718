"""Attributes to columns and back: nothing lost, or named."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from pdflow.errors import PdflowError
from pdflow.io.comments import decode_comments, encode_comments
from pdflow.io.stream import Field
from pdflow.io.tabular.columns import (
    Dialect,
    Layout,
    distinct_names,
    plan_reading,
    plan_writing,
    take_note,
    with_note,
)

PLY_DTYPES = [np.dtype(t) for t in ("i1", "u1", "i2", "u2", "i4", "u4", "f4", "f8")]
PLY = Dialect(frozenset(PLY_DTYPES))


def fields_of(attributes: dict[str, np.ndarray]) -> dict[str, Field]:
    return {name: Field.of(values) for name, values in attributes.items()}


def there_and_back(
    attributes: dict[str, np.ndarray], dialect: Dialect = PLY, known: bool = True
) -> tuple[dict[str, np.ndarray], Layout]:
    layout = plan_writing(fields_of(attributes), dialect, attributes if known else None)
    columns = layout.split(attributes)
    assert list(columns) == list(layout.columns)
    assert {k: v.dtype for k, v in columns.items()} == layout.columns
    lines, losses = encode_comments(with_note({}, layout))
    assert losses == []
    metadata, note = take_note(decode_comments(lines))
    assert metadata == {}
    return plan_reading(layout.columns, dialect, note).join(columns), layout


def assert_equal(left: dict[str, np.ndarray], right: dict[str, np.ndarray]) -> None:
    assert list(left) == list(right)
    for name, values in left.items():
        assert values.dtype == right[name].dtype
        assert values.shape == right[name].shape
        np.testing.assert_array_equal(values, right[name])


def test_usual_attributes_need_no_note() -> None:
    attributes = {
        "intensity": np.arange(4, dtype=np.uint16),
        "colors": np.arange(12, dtype=np.uint8).reshape(4, 3),
        "normals": np.linspace(0, 1, 12, dtype=np.float32).reshape(4, 3),
        "weights": np.arange(8.0).reshape(4, 2),
    }
    back, layout = there_and_back(attributes)
    assert_equal(back, attributes)
    assert layout.note == {}
    assert list(layout.columns) == [
        *("intensity", "red", "green", "blue", "nx", "ny", "nz", "weights_0", "weights_1")
    ]


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(
    "dtype", ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", ">i4", ">f8"]
)
@pytest.mark.parametrize("width", [0, 1, 2, 3])
def test_every_dtype_and_width_comes_back(dtype: str, width: int, known: bool) -> None:
    shape = (5, width) if width else (5,)
    values = (np.arange(np.prod(shape)) % 2).astype(dtype).reshape(shape)
    for name in ("a", "colors", "normals"):
        back, _ = there_and_back({name: values}, known=known)
        assert_equal(back, {name: values})


def test_uint64_beyond_range_is_a_loss_when_known_and_refused_when_streaming() -> None:
    attributes = {"id": np.array([1, 2**64 - 1], np.uint64)}
    layout = plan_writing(fields_of(attributes), PLY, attributes)
    assert layout.columns == {}
    assert layout.losses == ["attribute 'id' (uint64 with values beyond 2**53)"]
    streaming = plan_writing(fields_of(attributes), PLY)
    assert streaming.columns == {"id": np.dtype(np.float64)}
    with pytest.raises(PdflowError, match="attribute 'id' do not fit float64"):
        streaming.split(attributes)


@pytest.mark.parametrize(
    "names",
    [
        ["x", "y", "z"],
        ["red", "green", "blue"],
        ["red", "colors"],
        ["nx", "ny", "nz", "normals"],
        ["a", "a_0", "a_1", "a_2"],
        ["a_0", "odd name", "a_1"],
        ["", " ", "_", "unnamed"],
        ["Höhe", "H he", "Ho_he", "高さ", "\n", "a\tb"],
        ["#a", "//b", '"c"'],
        ["w_0", "w_01", "w_1"],
        ["columns", "comments", "pdflow"],
    ],
)
def test_clashing_and_odd_names_come_back(names: list[str]) -> None:
    attributes: dict[str, np.ndarray] = {}
    for i, name in enumerate(names):
        wide = name in ("colors", "normals", "a")
        attributes[name] = np.full((2, 3) if wide else 2, i, np.uint8)
    back, layout = there_and_back(attributes)
    assert_equal(back, attributes)
    assert all(PLY.is_legal(name) and name not in PLY.reserved for name in layout.columns)


def test_format_with_its_own_column_names() -> None:
    pcd = Dialect(
        frozenset({np.dtype(np.float32)}),
        triples={"normals": ("normal_x", "normal_y", "normal_z")},
    )
    attributes = {"normals": np.eye(3, dtype=np.float32), "nx": np.ones(3, np.float32)}
    back, layout = there_and_back(attributes, pcd)
    assert_equal(back, attributes)
    assert layout.note == {}
    assert list(layout.columns) == ["normal_x", "normal_y", "normal_z", "nx"]


def test_aliases_are_read_and_never_confused_with_names() -> None:
    aliases = {"R": "red", "G": "green", "B": "blue", "I": "intensity", "X": "x"}
    dialect = Dialect(frozenset(PLY_DTYPES), canonical=lambda name: aliases.get(name, name))
    u1 = np.dtype(np.uint8)
    plain = plan_reading(dict.fromkeys(["I", "R", "G", "B"], u1), dialect)
    assert plain.fields == {"intensity": Field(u1), "colors": Field(u1, 3)}
    attributes = {name: np.full(2, i, np.uint8) for i, name in enumerate("RGBIX")}
    attributes["colors"] = np.zeros((2, 3), np.uint8)
    back, _ = there_and_back(attributes, dialect)
    assert_equal(back, attributes)


def test_triples_of_mixed_dtypes_join_only_if_that_is_exact() -> None:
    f4, f8, u1, i8 = (np.dtype(t) for t in ("f4", "f8", "u1", "i8"))
    joined = plan_reading({"red": u1, "green": f4, "blue": f8}, PLY)
    assert joined.fields == {"colors": Field(f8, 3)}
    apart = plan_reading({"red": i8, "green": f8, "blue": f8}, PLY)
    assert set(apart.fields) == {"red", "green", "blue"}


def test_note_that_does_not_fit_is_ignored() -> None:
    u1 = np.dtype(np.uint8)
    entry = {"columns": ["a"], "dtype": "|b1", "width": 0}
    for note in (
        None,
        [],
        {"a": None},
        {"a": {**entry, "dtype": "O"}},
        {"a": {**entry, "dtype": "nonsense"}},
        {"a": {**entry, "dtype": "(u1"}},
        {"a": {**entry, "dtype": ",u1"}},
        {"a": {**entry, "width": float("inf")}},
        {"a": {**entry, "width": -1}},
        {"a": {**entry, "width": 2}},
        {"a": {**entry, "columns": ["b"]}},
        {"a": {**entry, "columns": 7}},
        {"a": {**entry, "columns": [[1]]}},
        {"a": {**entry, "columns": ["a", "a"], "width": 2}},
    ):
        assert plan_reading({"a": u1}, PLY, note).fields == {"a": Field(u1)}
    assert plan_reading({"a": u1}, PLY, {"a": entry}).fields == {"a": Field(np.dtype(bool))}


def test_values_edited_beyond_the_noted_dtype_are_refused() -> None:
    note = {"a": {"columns": ["a"], "dtype": "<i8", "width": 0}}
    layout = plan_reading({"a": np.dtype("f8")}, PLY, note)
    assert layout.join({"a": np.array([1.0, -7.0])})["a"].tolist() == [1, -7]
    for bad in (0.5, np.nan, np.inf, 2.0**63):
        with pytest.raises(PdflowError, match="column 'a' do not fit int64"):
            layout.join({"a": np.array([1.0, bad])})


def test_chunk_that_differs_from_the_header_is_refused() -> None:
    layout = plan_writing({"a": Field(np.dtype("f4"))}, PLY)
    for bad in ({}, {"a": np.zeros(2)}, {"a": np.zeros((2, 1), np.float32)}):
        with pytest.raises(PdflowError, match="same attributes"):
            layout.split(bad)
    assert layout.split({"a": np.zeros(0, np.float32)})["a"].shape == (0,)


def test_chunk_without_values_is_refused() -> None:
    """A header cannot tell (M, 0) from (M,)."""
    layout = plan_writing({"flag": Field(np.dtype("f4"))}, PLY)
    with pytest.raises(PdflowError, match="'flag' of a chunk has no values: leave it out"):
        layout.split({"flag": np.zeros((3, 0), np.float32)})


@pytest.mark.parametrize("mine", [7, {"attributes": {}}, ["a"]])
def test_metadata_entry_of_the_user_called_columns_survives(mine: Any) -> None:
    bool_field, plain_field = {"a": Field(np.dtype(bool))}, {"a": Field(np.dtype("u1"))}
    for fields in (bool_field, plain_field):
        layout = plan_writing(fields, PLY)
        metadata, note = take_note(with_note({"columns": mine}, layout))
        assert metadata == {"columns": mine}
        assert plan_reading(layout.columns, PLY, note).fields == fields


def test_distinct_names() -> None:
    assert distinct_names(["a", "a", "a_", "", ""]) == ["a", "a_", "a__", "unnamed", "unnamed_"]


def test_float_rounds_to_the_noted_float() -> None:
    note = {"a": {"columns": ["a"], "dtype": "<f4", "width": 0}}
    layout = plan_reading({"a": np.dtype("f8")}, PLY, note)
    assert layout.join({"a": np.array([0.1])})["a"][0] == np.float32(0.1)


names = st.one_of(
    st.sampled_from(["colors", "normals", "red", "nx", "x", "a", "a_0", "a_1", "A", "b c"]),
    st.text(max_size=4),
)


dtypes = st.sampled_from([np.dtype(t) for t in ("?", "i1", "u2", "i4", "i8", "u8", "f2", "f8")])


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_any_set_of_attributes_comes_back(data: st.DataObject) -> None:
    attributes = {}
    for name in data.draw(st.lists(names, unique=True, max_size=6)):
        if name.encode("utf-8", "replace").decode() != name:
            continue  # lone surrogates are not text
        shape = data.draw(st.sampled_from([(3,), (3, 1), (3, 2), (3, 3), (3, 4)]))
        values = data.draw(hnp.arrays(data.draw(dtypes), shape))
        attributes[name] = values
    layout = plan_writing(fields_of(attributes), PLY, attributes)
    lost = {name for name in attributes if name not in layout.fields}
    assert len(lost) == len(layout.losses)
    assert all(attributes[name].dtype.kind in "iu" for name in lost)
    held = {name: values for name, values in attributes.items() if name not in lost}
    back, _ = there_and_back(held)
    assert_equal(back, held)
