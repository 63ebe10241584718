"""Assemble: read an input again, and write it with its clean points, row by row."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdflow.cloud import PointCloud
from pdflow.errors import PdflowError
from pdflow.io import atomic_path, find_format, open_reader, open_writer
from pdflow.io.stream import Field, Header
from pdflow.pipeline.history import (
    outlier_class,
    with_digits,
    with_history,
    with_outlier_class,
)
from pdflow.pipeline.restraint import count_held_back
from pdflow.pipeline.results import with_columns, without_row_metadata
from pdflow.pipeline.selection import leave_out, select
from pdflow.pipeline.uncertainty import where_held
from pdflow.tiles.index import Inputs
from pdflow.tiles.sealed import writing
from pdflow.tiles.stages import LIMIT, result_type
from pdflow.tiles.store import Store


@dataclass
class Totals:
    """What is counted while an output is written; lengths in the cloud's unit."""

    points: int = 0
    points_out: int = 0
    dropped: int = 0
    outliers: int = 0
    held_back: Counter[str] = field(default_factory=Counter)
    moved: float = 0.0
    farthest: float = 0.0

    def as_json(self) -> str:
        """The counts as text."""
        return json.dumps(vars(self))

    @staticmethod
    def from_json(text: str) -> Totals:
        """What `as_json` wrote."""
        counts = json.loads(text)
        return Totals(**{**counts, "held_back": Counter(counts["held_back"])})

    def add(self, shift: NDArray[np.float64], found: NDArray[Any]) -> None:
        """Count points with their displacements (m, 3)."""
        lengths = np.linalg.norm(shift, axis=1)
        self.points += len(shift)
        self.outliers += int(found["outlier"].sum())
        self.held_back.update(count_held_back(found["held_back"]))
        self.moved += float(lengths.sum())
        self.farthest = max(self.farthest, float(lengths.max()))


class Results:
    """The results of all points, in the order of the inputs.

    Points of a cell are stored in the order of their rows, so each cell has a place up to which
    its points were taken.
    """

    def __init__(self, store: Store) -> None:
        self.store, self.record = store, result_type(store.job["options"])
        self.taken = np.zeros(len(store.index.cells), np.int64)

    def take(self, points: NDArray[np.float64]) -> NDArray[Any]:
        """The results (m,) of the next points (m, 3) of the inputs."""
        index = self.store.index
        cells = index.cells.of(points - index.center)
        order = np.argsort(cells, kind="stable")
        found, first = np.unique(cells[order], return_index=True)
        ends = np.append(first[1:], len(order))
        tiles = np.searchsorted(index.tiles, found, side="right") - 1
        results = np.empty(len(points), self.record)
        for tile in np.unique(tiles):
            begin = index.offsets[index.tiles[tile]]
            with self.store.path(LIMIT, int(tile)).open("rb") as file:
                for place in np.flatnonzero(tiles == tile):
                    cell, count = found[place], int(ends[place] - first[place])
                    start = index.offsets[cell] + self.taken[cell] - begin
                    file.seek(int(start) * self.record.itemsize)
                    records = np.fromfile(file, self.record, count)
                    if len(records) < count:
                        raise PdflowError(
                            "An input changed while it was denoised: delete "
                            f"{self.store.folder}, and begin anew."
                        )
                    results[order[first[place] : ends[place]]] = records
        self.taken[found] += ends - first
        return results


def write_output(
    results: Results, inputs: Inputs, number: int, target: Path, to: str | None
) -> Totals:
    """Write the output of one input, completely or not at all."""
    options, format = results.store.job["options"], find_format(target, to).name
    code, totals = outlier_class(options, format), Totals()
    made = results.store.folder / "written" / target.name
    with writing(made):
        made.parent.mkdir(exist_ok=True)
    with open_reader(inputs.paths[number], inputs.format) as reader:
        header = _header(reader.header, options, code, int(results.store.index.inputs[number]))
    if (history := results.store.job["history"]) is not None:
        told = with_history(PointCloud(np.zeros((1, 3)), {}, header.metadata), history, format)
        header = replace(header, metadata=told.metadata)
    with open_writer(made, header, to) as writer:
        for chunk, dropped in inputs.chunks(number):
            totals.dropped += dropped
            if not len(chunk):
                continue
            found = results.take(chunk.points)
            if (where := options.get("where")) is not None:
                others = ~select(chunk, where)
                leave_out(others, chunk.points, found["point"], found["held_back"])
            shift = found["point"] - chunk.points
            totals.add(shift, found)
            columns: dict[str, NDArray[Any]] = {}
            if options["displacement"]:
                columns["displacement"] = shift
            if options.get("uncertainty"):
                columns["uncertainty"] = where_held(
                    found["expected"], found["seen"], found["point"], found["held_back"]
                )
            if options["outliers"] == "mark":
                columns["outlier"] = found["outlier"]
            clean = with_columns(chunk.with_points(found["point"]), columns)
            clean = with_outlier_class(clean, code)
            clean = with_digits(clean, chunk, format)
            if options["outliers"] == "remove":
                clean = clean[found["outlier"] == 0]
            totals.points_out += len(clean)
            writer.write(clean)
    with atomic_path(target, made.suffix) as temporary:
        shutil.move(os.fspath(made), temporary)
    return totals


def _header(header: Header, options: dict[str, Any], code: int | None, count: int) -> Header:
    """The header of an output: that of its input, with the columns that were asked for.

    code  class of outliers; None if they get none
    """
    fields, metadata = dict(header.fields), header.metadata
    if options["displacement"]:
        fields["displacement"] = Field(np.dtype(np.float64), 3)
    if options.get("uncertainty"):
        fields["uncertainty"] = Field(np.dtype(np.float64))
    if code is not None:
        fields.setdefault("classification", Field(np.dtype(np.uint8)))
    elif options["outliers"] == "mark":
        fields["outlier"] = Field(np.dtype(np.uint8))
    known: int | None = count
    if options["outliers"] == "remove":
        known = None
        metadata = without_row_metadata(PointCloud(np.zeros((1, 3)), {}, metadata)).metadata
    # Clean coordinates need more digits than the noisy ones may have had.
    double = np.dtype(np.float64)
    return replace(header, count=known, fields=fields, metadata=metadata, point_dtype=double)
