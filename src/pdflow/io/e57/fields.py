"""Point fields of E57 and attributes of a cloud: which field holds which attribute."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdflow.io.stream import Field
from pdflow.io.tabular.plain_types import from_plain, note_of, noted_field, plain_type, to_plain

POSITION = ("cartesianX", "cartesianY", "cartesianZ")
SPHERICAL = ("sphericalRange", "sphericalAzimuth", "sphericalElevation")
STATE = "cartesianInvalidState"
SPHERICAL_STATE = "sphericalInvalidState"
PREFIX = "pdflow"
METADATA, ATTRIBUTES = f"{PREFIX}:metadata", f"{PREFIX}:attributes"
ABSENT = f"{PREFIX}:absent"
"""In the metadata of a scan: attributes that other scans have and it lacks."""

SCAN, DIRECTION = "scan", "direction"
EXTENSIONS = {
    PREFIX: "urn:pdflow:e57:1",
    "nor": "http://www.libe57.org/E57_NOR_surface_normals.txt",
}
GROUPS = {
    "colors": ("colorRed", "colorGreen", "colorBlue"),
    "normals": ("nor:normalX", "nor:normalY", "nor:normalZ"),
}
STANDARD = {
    "intensity",
    "rowIndex",
    "columnIndex",
    "returnIndex",
    "returnCount",
    "timeStamp",
    "isIntensityInvalid",
    "isColorInvalid",
    "isTimeStampInvalid",
    STATE,
}
_INTEGERS = tuple(np.dtype(t) for t in ("u1", "i1", "<u2", "<i2", "<u4", "<i4", "<i8"))


@dataclass(frozen=True)
class Column:
    """An attribute and the point fields that hold it, in order."""

    name: str
    kind: Field
    fields: tuple[str, ...]

    def get(self, values: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
        """The attribute (M,) or (M, W) from fields (M,)."""
        plain, _ = plain_type(self.kind.dtype) or (self.kind.dtype, 1)
        stacked = np.stack([values[f] for f in self.fields], axis=1)
        # E57 stores only the bits of unsigned 64-bit integers.
        bits = stacked.view(plain) if plain == np.uint64 else stacked.astype(plain, copy=False)
        return from_plain(bits, self.kind)

    def set(self, attribute: NDArray[Any]) -> dict[str, NDArray[Any]]:
        """The fields (M,) of an attribute (M,) or (M, W)."""
        columns = to_plain(attribute, self.kind.dtype)
        columns = columns.view(np.int64) if columns.dtype == np.uint64 else columns
        return {f: np.ascontiguousarray(columns[:, i]) for i, f in enumerate(self.fields)}

    @property
    def types(self) -> dict[str, np.dtype[Any]]:
        """The types of the fields that `set` gives."""
        plain, _ = plain_type(self.kind.dtype) or (self.kind.dtype, 1)
        return dict.fromkeys(self.fields, np.dtype(np.int64) if plain == np.uint64 else plain)

    @property
    def default(self) -> bool:
        """Whether a reader finds this attribute without a note."""
        group = GROUPS.get(self.name, (self.name,))
        same = self.fields == group and self.kind.width == (3 if len(group) == 3 else 0)
        known = self.kind.dtype in _INTEGERS or self.kind.dtype in (np.float32, np.float64)
        return same and known and not self.name.startswith(f"{PREFIX}:")

    def note(self) -> dict[str, Any]:
        """The note that tells a reader about this attribute."""
        return {"name": self.name, **note_of(self.kind), "fields": list(self.fields)}


def columns_to_read(types: Mapping[str, np.dtype[Any]], notes: list[Any]) -> list[Column]:
    """The attributes in point fields of these types, in their order."""
    found = [c for c in (_noted(note, types) for note in notes) if c]
    used = {*POSITION, *SPHERICAL, SPHERICAL_STATE, *(f for c in found for f in c.fields)}
    free = {name: dtype for name, dtype in types.items() if name not in used}
    for name, group in GROUPS.items():
        if len({free.get(f) for f in group}) == 1 and group[0] in free:
            found.append(Column(name, Field(free[group[0]], 3), group))
            free = {f: t for f, t in free.items() if f not in group}
    found += [Column(name, Field(dtype), (name,)) for name, dtype in free.items()]
    place = {name: i for i, name in enumerate(types)}
    return sorted(found, key=lambda column: place[column.fields[0]])


def columns_to_write(
    attributes: Mapping[str, Field], extensions: Mapping[str, str]
) -> tuple[list[Column], list[str]]:
    """Point fields for each attribute, and the names of attributes without any."""
    columns, lost = [], []
    taken: set[str] = set()
    for name, kind in attributes.items():
        plain = plain_type(kind.dtype)
        if plain is None:
            lost.append(f"attribute {name!r} ({kind.dtype})")
            continue
        total = plain[1] * kind.columns
        fields: tuple[str, ...]
        if name in GROUPS and kind.width == total == 3:
            fields = GROUPS[name]
        elif total == 1 and kind.width == 0 and _is_field(name, extensions):
            fields = (name,)
        else:
            fields = tuple(_own_field(name, i if total > 1 else None, taken) for i in range(total))
        columns.append(Column(name, kind, fields))
    return columns, lost


def field_types(prototype: Any, libe57: ModuleType) -> dict[str, np.dtype[Any] | None]:
    """The type of each point field, None for text."""
    nodes = [prototype[i] for i in range(prototype.childCount())]
    return {node.elementName(): _dtype(node, libe57) for node in nodes}


def record_bits(prototype: Any, libe57: ModuleType) -> int:
    """Bits that a point takes in a file, at least; a field whose limits are equal takes none."""
    return sum(_bits(prototype[i], libe57) for i in range(prototype.childCount()))


def new_field(dtype: np.dtype[Any], file: Any, libe57: ModuleType) -> Any:
    """The prototype of a point field."""
    if dtype.kind == "f":
        precision = libe57.E57_SINGLE if dtype.itemsize == 4 else libe57.E57_DOUBLE
        return libe57.FloatNode(file, 0.0, precision)
    limits = np.iinfo(dtype)
    return libe57.IntegerNode(file, 0, int(limits.min), int(limits.max))


def _dtype(node: Any, libe57: ModuleType) -> np.dtype[Any] | None:
    if isinstance(node, libe57.FloatNode):
        single = node.precision() == libe57.E57_SINGLE
        return np.dtype(np.float32 if single else np.float64)
    if isinstance(node, libe57.ScaledIntegerNode):
        return np.dtype(np.float64)
    if not isinstance(node, libe57.IntegerNode):
        return None
    low, high = node.minimum(), node.maximum()
    return next(t for t in _INTEGERS if np.iinfo(t).min <= low and high <= np.iinfo(t).max)


def _bits(node: Any, libe57: ModuleType) -> int:
    if isinstance(node, libe57.FloatNode):
        return 32 if node.precision() == libe57.E57_SINGLE else 64
    if isinstance(node, (libe57.ScaledIntegerNode, libe57.IntegerNode)):
        return int(node.maximum() - node.minimum()).bit_length()
    return 8  # a text has a length


def _noted(note: Any, types: Mapping[str, np.dtype[Any]]) -> Column | None:
    """The column that a note describes, or None if it does not exist any more."""
    kind = noted_field(note)
    if kind is None:
        return None
    try:
        column = Column(str(note["name"]), kind, tuple(note["fields"]))
        _, each = plain_type(kind.dtype) or (None, 0)
        there = all(types[f] is not None for f in column.fields)
    except (KeyError, TypeError):
        return None
    fits = len(column.fields) == each * kind.columns
    return column if there and fits and column.fields else None


def _is_field(name: str, extensions: Mapping[str, str]) -> bool:
    """Whether E57 or a known extension defines a field of this name."""
    prefix, _, local = name.partition(":")
    known = prefix in extensions and re.fullmatch(r"[A-Za-z_][\w.-]*", local, re.ASCII)
    return name in STANDARD or (bool(known) and prefix != PREFIX)


def _own_field(name: str, index: int | None, taken: set[str]) -> str:
    """A valid field name for an attribute that E57 does not define."""
    base = re.sub(r"\W", "_", name, flags=re.ASCII)
    base = f"{PREFIX}:_{base}" if index is None else f"{PREFIX}:_{base}_{index}"
    field, number = base, 1
    while field in taken:
        number += 1
        field = f"{base}_{number}"
    taken.add(field)
    return field
