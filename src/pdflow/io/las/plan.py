"""The layout of attributes in LAS: which point format, which extra bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pdflow.io.exact import always_exact
from pdflow.io.las.header import EXTRA_BYTES_VLR, LARGEST_VLR, LasHeader
from pdflow.io.las.layout import (
    DESCRIPTOR,
    UNDOCUMENTED,
    Column,
    Dimension,
    default_columns,
    extra_dimensions,
    new_descriptor,
    record_dtype,
    reserved_names,
    standard_dimensions,
    unique_name,
)
from pdflow.io.stream import Field
from pdflow.io.tabular.columns import COLORS
from pdflow.io.tabular.plain_types import note_of, noted_field, plain_type

_LONGEST_NAME = 32
_LONGEST_RECORD = 65535
_MOST_DESCRIPTORS = LARGEST_VLR // DESCRIPTOR.size
# Names that other software expects; it does not know dimensions of three values.
_SPLIT_NAMES = {("normals", 3): ("NormalX", "NormalY", "NormalZ")}


@dataclass
class Plan:
    """A point format, the extra dimensions of its record, and the column of each attribute."""

    point_format: int
    columns: list[Column] = field(default_factory=list)
    extra: list[Dimension] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of one point record."""
        return record_dtype(self.point_format, self.extra)

    @property
    def descriptors(self) -> bytes:
        """The data of the extra bytes VLR."""
        return b"".join(d.raw for d in self.extra)

    def defaults(self) -> list[Column]:
        """The attributes that a reader finds without notes."""
        dimensions = [*standard_dimensions(self.point_format).values(), *self.extra]
        return default_columns(dimensions)


def plan_to_read(header: LasHeader, notes: list[Any] | None, complete: bool) -> Plan:
    """The attributes of a file.

    notes     the writer's notes on its attributes (see `noted_columns`), or None
    complete  whether the writer made the file from scratch. Then standard dimensions without a
              note were not in its cloud; the point format just happens to have them.
    """
    standard = standard_dimensions(header.point_format)
    room = header.record_length - record_dtype(header.point_format, []).itemsize
    descriptors = header.find_vlr(EXTRA_BYTES_VLR)
    extra = extra_dimensions(header.point_format, descriptors.data if descriptors else b"", room)
    plan = Plan(header.point_format, extra=extra)
    known = {**standard, **{d.name: d for d in extra}}
    plan.columns = [c for c in (_noted_column(note, known) for note in notes or []) if c]
    used = {d.name for c in plan.columns for d in c.dimensions}
    names = {c.name for c in plan.columns}
    for column in plan.defaults():
        free = column.name not in names and not used & {d.name for d in column.dimensions}
        if free and not (complete and notes is not None and column.standard):
            plan.columns.append(column)
    return plan


def plan_to_write(
    fields: Mapping[str, Field], kept: LasHeader | None, spilled: frozenset[str] = frozenset()
) -> Plan:
    """Dimensions for each attribute, as in the original file if there was one.

    kept     header of the original file, or None
    spilled  attributes with values too large for their standard dimension
    """
    old = _kept_extra(kept) if kept else {}
    own = {n for n, f in fields.items() if n in old and old[n].kind == f}
    others = {n: f for n, f in fields.items() if n not in own}
    plan = Plan(_choose_point_format(others, kept.point_format if kept else None))
    standard = standard_dimensions(plan.point_format)
    unplaced: dict[str, Field] = {}
    for name, spec in fields.items():
        home = None if name in own else _standard_home(name, spec, standard)
        if home and name not in spilled:
            plan.columns.append(Column(name, spec, home))
        elif plain_type(spec.dtype):
            unplaced[name] = spec
        else:
            plan.lost.append(f"attribute {name!r} ({spec.dtype})")
    rest, tail = unplaced.get(UNDOCUMENTED), None
    if kept is not None and UNDOCUMENTED not in old and rest and rest.dtype == np.uint8:
        tail = unplaced.pop(UNDOCUMENTED)
    _place_extra(plan, unplaced, old, tail)
    return plan


def noted_columns(plan: Plan, complete: bool) -> list[dict[str, Any]] | None:
    """The notes that a reader needs on the attributes; None if the file is clear without.

    complete  as in `plan_to_read`
    """
    notes = [_note(c) for c in plan.columns]
    default = [_note(c) for c in plan.defaults()]
    if all(n in default for n in notes) and not (complete and len(notes) < len(default)):
        return None
    return notes


def _note(column: Column) -> dict[str, Any]:
    places = [d.name for d in column.dimensions]
    return {"name": column.name, **note_of(column.kind), "dimensions": places}


def _noted_column(note: Any, known: dict[str, Dimension]) -> Column | None:
    """The column that a note describes, or None if other software changed its dimensions."""
    kind = noted_field(note)
    if kind is None:
        return None
    try:
        dimensions = tuple(known[name] for name in note["dimensions"])
        name = str(note["name"])
    except (KeyError, TypeError):
        return None
    column = Column(name, kind, dimensions)
    native, each = plain_type(kind.dtype) or (None, 0)
    if sum(d.kind.columns for d in dimensions) != each * kind.columns:
        return None
    fits = all(d.kind.dtype == native for d in dimensions)
    return column if dimensions and (fits or column.standard) else None


def _choose_point_format(fields: Mapping[str, Field], kept: int | None) -> int:
    """The format with dimensions for most of the attributes.

    Among equals: that of the original file, then the widest bit fields, then the smallest record.
    """

    def merit(candidate: int) -> tuple[int, bool, int, int]:
        standard = standard_dimensions(candidate)
        homes = [h for n, f in fields.items() if (h := _standard_home(n, f, standard))]
        bits = sum(d.capacity for home in homes for d in home)
        return len(homes), candidate == kept, bits, -record_dtype(candidate, []).itemsize

    return max(range(11), key=merit)


def _standard_home(
    name: str, spec: Field, standard: dict[str, Dimension]
) -> tuple[Dimension, ...] | None:
    """The standard dimensions of an attribute, if they can hold its type."""
    if name == "colors":
        fits = spec.width == 3 and spec.dtype.kind == "u" and spec.dtype.itemsize <= 2
        return tuple(standard[c] for c in COLORS) if fits and COLORS[0] in standard else None
    dimension = standard.get(name)
    if dimension is None or name in ("X", "Y", "Z", *COLORS) or spec.width:
        return None
    return (dimension,) if always_exact(spec.dtype, dimension.kind.dtype) else None


def _place_extra(
    plan: Plan, fields: dict[str, Field], old: dict[str, Dimension], tail: Field | None
) -> None:
    """Give attributes their extra bytes: those of the original file in its order, then new ones.

    tail  bytes without a descriptor in the original file; they get none now either
    """
    rank = {name: place for place, name in enumerate(old)}
    taken = reserved_names(plan.point_format)
    used = _bytes(tail) if tail else 0
    room = _LONGEST_RECORD - plan.dtype.itemsize
    described: list[tuple[int, bytes, tuple[str, int]]] = []  # rank, descriptor, part of what
    parts_of = {name: _parts(name, spec, old) for name, spec in fields.items()}
    # Attributes with one dimension come first, so that they keep their own names.
    for name in sorted(fields, key=lambda n: len(parts_of[n])):
        size = sum(_bytes(kind) for _, kind in parts_of[name])
        if used + size > room or len(described) + len(parts_of[name]) > _MOST_DESCRIPTORS:
            plan.lost.append(f"attribute {name!r} (a point record has no room for it)")
            continue
        used += size
        for part, (label, kind) in enumerate(parts_of[name]):
            if label in taken or label not in old:
                label = unique_name(label, taken, _LONGEST_NAME)
            taken.add(label)
            known = old.get(label)
            if known and known.kind == kind:
                described.append((rank[label], known.raw, (name, part)))
            else:
                raw = new_descriptor(label, kind)
                described.append((len(rank) + len(described), raw, (name, part)))
    described.sort(key=lambda d: d[0])
    plan.extra = extra_dimensions(plan.point_format, b"".join(d[1] for d in described), used)
    if tail:
        plan.columns.append(Column(UNDOCUMENTED, tail, (plan.extra[-1],)))
    place_of = {part: plan.extra[i] for i, (_, _, part) in enumerate(described)}
    for name, spec in fields.items():
        if (name, 0) in place_of:
            home = tuple(place_of[name, i] for i in range(len(parts_of[name])))
            plan.columns.append(Column(name, spec, home))


def _kept_extra(kept: LasHeader) -> dict[str, Dimension]:
    """The documented extra dimensions of the original file by name, in its order."""
    vlr = kept.find_vlr(EXTRA_BYTES_VLR)
    plenty = _LONGEST_RECORD * _MOST_DESCRIPTORS
    found = extra_dimensions(kept.point_format, vlr.data if vlr else b"", plenty)
    return {d.name: d for d in found if d.raw}


def _bytes(kind: Field) -> int:
    return kind.dtype.itemsize * kind.columns


def _parts(name: str, spec: Field, old: dict[str, Dimension]) -> list[tuple[str, Field]]:
    """Label and field of the extra dimensions that an attribute takes."""
    native, each = plain_type(spec.dtype) or (spec.dtype, 1)
    total = each * spec.columns
    same = old.get(name)
    if same and (same.kind.dtype, same.kind.columns) == (native, total):
        return [(name, same.kind)]
    split = _SPLIT_NAMES.get((name, total))
    if split or total > 3:
        return [(n, Field(native)) for n in split or [f"{name}[{i}]" for i in range(total)]]
    return [(name, Field(native, total if total > 1 else 0))]
