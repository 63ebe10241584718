"""Attributes as scalar columns and back, for formats that are tables of scalars.

`colors` (M, 3) is red, green, blue; `normals` (M, 3) is nx, ny, nz; any other (M, W) attribute is
name_0 ... name_{W-1}; (M,) is one column of its own name. A `Dialect` describes the columns that a
format can have. `plan_writing` and `plan_reading` return a `Layout`, which splits attributes into
columns and joins columns into attributes, chunk by chunk:

    layout = plan_writing(header.fields, DIALECT)          # with values=attributes if known
    metadata = with_note(header.metadata, layout)          # write these as comments
    columns = layout.split(chunk.attributes)               # column name -> (M,) array
    warn_of_losses("PLY", layout.losses)

    metadata, note = take_note(metadata)
    layout = plan_reading(columns_of_the_file, DIALECT, note)
    attributes = layout.join(columns)

The note is one metadata entry. It records what the columns alone do not show (bool, int64 stored as
float64, odd names, width 1) and is written only if needed.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdflow.errors import PdflowError
from pdflow.io.exact import always_exact, assign_exactly, cast_exactly, storage_dtype
from pdflow.io.stream import Field
from pdflow.io.tabular.plain_types import note_of, noted_field

COORDINATES = ("x", "y", "z")
COLORS = ("red", "green", "blue")
NORMALS = ("nx", "ny", "nz")
NOTE = "columns"
"""Name of the metadata entry that records what the columns alone do not show."""

Attributes = Mapping[str, NDArray[Any]]
Dtypes = Mapping[str, np.dtype[Any]]


def is_plain_name(name: str) -> bool:
    """Whether every parser reads `name` as one word.

    >>> [is_plain_name(name) for name in ("gps_time", "two words", "", "Höhe")]
    [True, False, False, False]
    """
    return re.fullmatch(r"[!-~]+", name) is not None and name[0] not in "#/%\"'"


@dataclass(frozen=True)
class Dialect:
    """The columns that a format can have.

    dtypes     native dtypes of a stored column
    triples    attribute with special column names -> its three columns
    reserved   column names that no attribute may use
    canonical  the name that the format's reader gives a column (aliases, letter case)
    inferred   the dtypes that reading without a note gives columns of these names and dtypes
    is_legal   whether the format can write this column name
    """

    dtypes: frozenset[np.dtype[Any]]
    triples: Mapping[str, tuple[str, ...]] = field(
        default_factory=lambda: {"colors": COLORS, "normals": NORMALS}
    )
    reserved: frozenset[str] = frozenset(COORDINATES)
    canonical: Callable[[str], str] = str
    inferred: Callable[[Dtypes], Dtypes] = dict
    is_legal: Callable[[str], bool] = is_plain_name


@dataclass(frozen=True)
class Layout:
    """Which columns hold which attribute.

    columns  column name -> dtype in the file, in file order
    fields   attribute name -> Field
    parts    attribute name -> its columns
    note     what the columns alone do not show; empty if they show everything
    losses   what the columns cannot hold, as phrases
    """

    columns: dict[str, np.dtype[Any]]
    fields: dict[str, Field]
    parts: dict[str, tuple[str, ...]]
    note: dict[str, Any] = field(default_factory=dict)
    losses: list[str] = field(default_factory=list)

    def split(self, attributes: Attributes) -> dict[str, NDArray[Any]]:
        """Column name -> (M,) array in the dtype of the file, from the attributes of a chunk."""
        columns: dict[str, NDArray[Any]] = {}
        for name, parts in self.parts.items():
            values, kind = attributes.get(name), self.fields[name]
            if values is None or Field.of(values) != kind:
                raise PdflowError(
                    f"Attribute {name!r} of a chunk differs from the header: give every chunk "
                    "the same attributes."
                )
            if values.ndim == 2 and not values.shape[1]:  # which no header tells from (M,)
                raise PdflowError(f"Attribute {name!r} of a chunk has no values: leave it out.")
            for part, column in zip(parts, values.T if kind.width else [values], strict=True):
                try:
                    columns[part] = cast_exactly(column, self.columns[part], f"attribute {name!r}")
                except PdflowError as error:
                    raise PdflowError(
                        f"The values of attribute {name!r} do not fit {self.columns[part].name}, "
                        f"the widest number of this format: choose one with {kind.dtype.name}, "
                        "such as las, pcd or npz."
                    ) from error
        return {part: columns[part] for part in self.columns}

    def join(self, columns: Attributes) -> dict[str, NDArray[Any]]:
        """Attribute name -> (M,) or (M, W) array, from the columns of a chunk."""
        attributes: dict[str, NDArray[Any]] = {}
        for name, parts in self.parts.items():
            kind, count = self.fields[name], len(columns[parts[0]])
            values = np.empty((count, kind.width) if kind.width else count, kind.dtype)
            for part, target in zip(parts, values.T if kind.width else [values], strict=True):
                assign_exactly(target, columns[part], f"column {part!r}")
            attributes[name] = values
        return attributes


def plan_writing(
    fields: Mapping[str, Field], dialect: Dialect, values: Attributes | None = None
) -> Layout:
    """The columns that hold these attributes.

    Each column has the attribute's dtype, or the narrowest one that is exact for `values`. Without
    values (streaming) it is the narrowest one that is exact for every value of the dtype; 64-bit
    integers fall back to float64, and `Layout.split` refuses a chunk that float64 cannot hold.

    >>> plan = plan_writing({"ok": Field(np.dtype(bool))}, Dialect(frozenset({np.dtype("u1")})))
    >>> {name: dtype.name for name, dtype in plan.columns.items()}, plan.note
    ({'ok': 'uint8'}, {'ok': {'columns': ['ok'], 'dtype': '|b1', 'width': 0}})
    """
    held: dict[str, np.dtype[Any]] = {}
    losses = []
    for name, kind in fields.items():
        array = None if values is None else values[name]
        dtype = storage_dtype(kind.dtype, dialect.dtypes, array)
        if dtype is None:
            losses.append(f"attribute {name!r} ({_why_not(kind.dtype)})")
        elif array is not None and array.ndim == 2 and not array.shape[1]:
            losses.append(f"attribute {name!r} (no values)")
        else:
            held[name] = dtype
    parts = _name_columns({name: fields[name].width for name in held}, dialect)
    columns = {part: held[name] for name in held for part in parts[name]}
    wanted = {name: fields[name] for name in held}

    seen = dialect.inferred(columns)
    plain = plan_reading(seen, dialect)
    note = {
        name: _remember(parts[name], kind)
        for name, kind in wanted.items()
        if plain.fields.get(name) != kind or plain.parts[name] != parts[name]
    }
    if plan_reading(seen, dialect, note).fields != wanted:
        note = {name: _remember(parts[name], kind) for name, kind in wanted.items()}
    return Layout(columns, wanted, {name: parts[name] for name in wanted}, note, losses)


def plan_reading(columns: Dtypes, dialect: Dialect, note: object = None) -> Layout:
    """The attributes in these columns, which exclude the coordinates.

    A note that does not match the columns, as after an edit by other software, is ignored. Aliases
    such as r for red count only if all three columns of the triple are present.

    >>> names = ("red", "green", "blue", "w_0", "w_1")
    >>> u1 = np.dtype("u1")
    >>> plan = plan_reading(dict.fromkeys(names, u1), Dialect(frozenset({u1})))
    >>> {name: kind.width for name, kind in plan.fields.items()}
    {'colors': 3, 'w': 2}
    """
    fields: dict[str, Field] = {}
    parts: dict[str, tuple[str, ...]] = {}
    free = dict(columns)

    def take(name: str, names: Sequence[str], kind: Field) -> None:
        parts[name], fields[name] = tuple(names), kind
        for part in names:
            del free[part]

    for name, names, kind in noted_fields(note):
        if name not in parts and len(set(names)) == len(names) and set(names) <= set(free):
            take(name, names, kind)
    by_name = {dialect.canonical(part): part for part in reversed(free)}
    for name, spelling in dialect.triples.items():
        names = [by_name[word] for word in spelling if word in by_name]
        if name not in parts and len(names) == len(spelling):
            dtype = _common_dtype([columns[part] for part in names])
            if dtype is not None:
                take(name, names, Field(dtype, len(names)))
    for name, names in _numbered_groups(columns):
        if name not in parts and set(names) <= set(free):
            take(name, names, Field(columns[names[0]], len(names)))
    in_triples = {word for spelling in dialect.triples.values() for word in spelling}
    for part in list(free):
        name = dialect.canonical(part)
        name = part if name in parts or name in in_triples else name
        while name in parts:
            name += "_"
        take(name, [part], Field(columns[part]))

    place = {part: i for i, part in enumerate(columns)}
    order = sorted(parts, key=lambda name: min(place[part] for part in parts[name]))
    return Layout(
        dict(columns), {name: fields[name] for name in order}, {name: parts[name] for name in order}
    )


def with_note(metadata: Mapping[str, Any], layout: Layout) -> dict[str, Any]:
    """The metadata to write, with the note if one is needed."""
    if not layout.note and NOTE not in metadata:
        return dict(metadata)
    note: dict[str, Any] = {"attributes": layout.note}
    if NOTE in metadata:
        note["metadata"] = metadata[NOTE]
    return {**metadata, NOTE: note}


def take_note(metadata: Mapping[str, Any]) -> tuple[dict[str, Any], object]:
    """The metadata from before `with_note`, and the note, or None.

    >>> layout = Layout({}, {}, {}, note={"a": {}})
    >>> take_note(with_note({"crs": "EPSG:4326"}, layout))
    ({'crs': 'EPSG:4326'}, {'a': {}})
    """
    note = metadata.get(NOTE)
    if not isinstance(note, dict) or not isinstance(note.get("attributes"), dict):
        return dict(metadata), None
    rest = {key: value for key, value in metadata.items() if key != NOTE}
    if "metadata" in note:
        rest[NOTE] = note["metadata"]
    return rest, note["attributes"]


def distinct_names(names: Iterable[str]) -> list[str]:
    """Column names as in the file, with duplicates and empty names made distinct.

    >>> distinct_names(["x", "", "x", "x_"])
    ['x', 'unnamed', 'x_', 'x__']
    """
    distinct: dict[str, None] = {}
    for name in names:
        name = name or "unnamed"
        while name in distinct:
            name += "_"
        distinct[name] = None
    return list(distinct)


def _remember(parts: Sequence[str], kind: Field) -> dict[str, Any]:
    """The entry of an attribute in the note."""
    return {"columns": list(parts), **note_of(kind)}


def noted_fields(note: object) -> Iterable[tuple[str, list[str], Field]]:
    """The valid entries of a note: attribute, its columns, its field."""
    for name, entry in note.items() if isinstance(note, dict) else ():
        kind, names = noted_field(entry), entry.get("columns") if isinstance(entry, dict) else None
        if kind is None or not isinstance(names, list):
            continue
        if len(names) == kind.columns and kind.dtype.kind in "biuf":
            yield name, [str(part) for part in names], kind


def _numbered_groups(columns: Dtypes) -> list[tuple[str, list[str]]]:
    """Runs of columns name_0, name_1, ... of one dtype: name and columns."""
    groups: list[tuple[str, list[str]]] = []
    for part in columns:
        match = re.fullmatch(r"(.+)_(0|[1-9][0-9]*)", part)
        if not match:
            groups.append((part, [part]))
            continue
        base, number = match[1], int(match[2])
        last, names = groups[-1] if groups else ("", [])
        if number and last == base and number == len(names) and columns[names[0]] == columns[part]:
            names.append(part)
        else:
            groups.append((base if number == 0 else part, [part]))
    return [(name, names) for name, names in groups if len(names) > 1 and name not in columns]


def _name_columns(widths: Mapping[str, int], dialect: Dialect) -> dict[str, tuple[str, ...]]:
    """Distinct legal column names for attributes; plain names stay if possible."""
    taken = set(dialect.reserved)
    parts: dict[str, tuple[str, ...]] = {}

    def claim(name: str, names: tuple[str, ...]) -> bool:
        words = {dialect.canonical(part) for part in names}
        if len(words) < len(names) or words & taken or not all(map(dialect.is_legal, names)):
            return False
        taken.update(words)
        parts[name] = names
        return True

    for name, spelling in dialect.triples.items():
        if widths.get(name) == len(spelling):
            claim(name, spelling)
    for name, width in widths.items():
        if name not in parts:
            claim(name, _numbered(name, width))
    for name, width in widths.items():
        base = _plain_name(name)
        while name not in parts and not claim(name, _numbered(base, width)):
            base += "_"
    return parts


def _numbered(name: str, width: int) -> tuple[str, ...]:
    return tuple(f"{name}_{i}" for i in range(width)) if width else (name,)


def _plain_name(name: str) -> str:
    """A readable name of letters, digits and underscores."""
    letters = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    plain: str = re.sub(r"[^A-Za-z0-9]+", "_", letters).strip("_")
    return plain or "unnamed"


def _common_dtype(dtypes: Sequence[np.dtype[Any]]) -> np.dtype[Any] | None:
    """The dtype that holds all of these exactly, or None."""
    common = np.result_type(*dtypes)
    return common if all(always_exact(dtype, common) for dtype in dtypes) else None


def _why_not(dtype: np.dtype[Any]) -> str:
    if dtype.kind in "iu":
        return f"{dtype.name} with values beyond 2**53"
    return {"U": "text", "S": "bytes", "O": "Python objects"}.get(dtype.kind, str(dtype))
