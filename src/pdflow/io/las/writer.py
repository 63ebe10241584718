"""Write a LAS or LAZ file in chunks, without knowing their values in advance."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from pdflow.cloud import PointCloud
from pdflow.errors import PdflowError
from pdflow.io.atomic import moved_aside
from pdflow.io.las.codec import PointSink, add_laszip_vlr
from pdflow.io.las.frame import (
    LARGEST_COORDINATE,
    Frame,
    bounding_box,
    choose_frame,
    decimals_of,
    have_decimals,
)
from pdflow.io.las.header import LasHeader, write_evlrs, write_header
from pdflow.io.las.layout import record_dtype, standard_dimensions
from pdflow.io.las.metadata import kept_header, make_header
from pdflow.io.las.plan import Plan, plan_to_write
from pdflow.io.las.reader import LasReader
from pdflow.io.losses import warn_of_losses
from pdflow.io.stream import CHUNK, Header, Writer

_MANY = 2**32 - 1
"""More points than this need LAS 1.4."""


class LasWriter(Writer):
    """A LAS or LAZ file that is written in chunks.

    The first chunk decides the frame and the dimension of each attribute. If a later chunk does not
    fit, the points so far are copied into a wider file: this is slow but rare, and no value must be
    known in advance.
    """

    def __init__(self, path: Path, header: Header) -> None:
        self._path, self._header = path, header
        self._target: _Target | None = None
        self._spilled: frozenset[str] = frozenset()
        self._many = (header.count or 0) > _MANY
        self._lost: list[str] = []

    def write(self, chunk: PointCloud) -> None:
        """Append points."""
        if not len(chunk):
            return
        box = bounding_box(chunk.points)
        if not np.isfinite(box).all():
            raise PdflowError(
                "LAS cannot hold NaN or infinite coordinates: drop such points first, for example "
                "with `pdflow convert --drop-nonfinite`."
            )
        if np.abs(box).max() > LARGEST_COORDINATE:
            raise PdflowError(f"LAS cannot hold coordinates as large as {np.abs(box).max():.3g}.")
        if self._target is None:
            growing = self._header.count is None or self._header.count > len(chunk)
            self._target = self._begin(box, chunk, growing)
        elif not self._target.takes(box, chunk):
            self._begin_again(box, chunk)
        for start in range(0, len(chunk), CHUNK):
            self._target.append(chunk[start : start + CHUNK])

    def finish(self) -> None:
        """Complete the file and warn of what was left out."""
        if self._target is None:
            self._target = self._begin(np.zeros((2, 3)), None, growing=False)
        self._target.complete()
        warn_of_losses("LAS", self._lost)

    def abort(self) -> None:
        """Close the file without completing it."""
        if self._target is not None:
            self._target.file.close()

    def _begin(self, box: NDArray[np.float64], chunk: PointCloud | None, growing: bool) -> _Target:
        """Open the file with a layout for what is known so far."""
        kept = kept_header(self._header.metadata)
        fields = self._header.fields
        empty = [n for n in fields if chunk is not None and not chunk.attributes[n].size]
        fields = {n: f for n, f in fields.items() if n not in empty}
        plan = plan_to_write(fields, kept, self._spilled)
        if chunk is not None:
            self._spilled |= _too_large(plan, chunk)
            plan = plan_to_write(fields, kept, self._spilled)
        header, lost = make_header(self._header.metadata, plan, self._many)
        frame, decimals = choose_frame(box, growing), None
        if chunk is not None and not kept:
            frame, decimals = _with_digits(frame, chunk.points)
        self._lost = plan.lost + [f"attribute {n!r} (no columns)" for n in empty] + lost
        if kept:
            frame = Frame(kept.scales, kept.offsets).fitted(box)
            for what in ("scales", "offsets"):
                old, new = getattr(kept, what).tolist(), getattr(frame, what).tolist()
                if old != new:
                    self._lost.append(f"points this far away with the {what} {old} (now {new})")
        header.scales, header.offsets = frame.scales, frame.offsets
        return _Target(self._path, header, plan, decimals)

    def _begin_again(self, box: NDArray[np.float64], chunk: PointCloud) -> None:
        """Copy the points so far into a file that also has room for `chunk`."""
        assert self._target is not None
        self._target.complete()
        self._spilled |= _too_large(self._target.plan, chunk)
        self._many |= self._target.header.count + len(chunk) > _MANY
        before = self._target.header
        box = np.stack([np.minimum(box[0], before.low), np.maximum(box[1], before.high)])
        with moved_aside(self._path) as earlier:
            self._target = self._begin(box, chunk, growing=True)
            for part in LasReader(earlier).chunks():
                self._target.append(part)


class _Target:
    """An open LAS file with a fixed layout: header, then points, then EVLRs.

    decimals  of all coordinates, if the scale was chosen by them
    """

    def __init__(self, path: Path, header: LasHeader, plan: Plan, decimals: int | None) -> None:
        self.header, self.plan = header, plan
        self._decimals = decimals
        self._frame = Frame(header.scales, header.offsets)
        self._low = np.full(3, 2**31 - 1)
        self._high = -self._low
        recipe = None
        if path.suffix.lower() == ".laz":
            standard = record_dtype(plan.point_format, []).itemsize
            recipe = add_laszip_vlr(header, header.record_length - standard)
        self.file: BinaryIO = path.open("wb")
        write_header(self.file, header)
        self._sink = PointSink(self.file, plan.point_format, recipe)

    def takes(self, box: NDArray[np.float64], chunk: PointCloud) -> bool:
        """Whether these points can be appended."""
        many = self.header.minor < 4 and self.header.count + len(chunk) > _MANY
        exact = self._decimals is None or have_decimals(chunk.points, self._decimals)
        return self._frame.fits(box) and exact and not many and not _too_large(self.plan, chunk)

    def append(self, chunk: PointCloud) -> None:
        """Write points that fit."""
        records = np.zeros(len(chunk), self.plan.dtype)
        for axis, name in enumerate("XYZ"):
            integers = self._frame.to_integers(chunk.points[:, axis], axis)
            records[name] = integers
            self._low[axis] = min(self._low[axis], integers.min())
            self._high[axis] = max(self._high[axis], integers.max())
        for column in self.plan.columns:
            column.set(records, chunk.attributes[column.name])
        self._sink.write(records)
        self.header.count += len(chunk)
        returns = standard_dimensions(self.plan.point_format)["return_number"].get(records)
        by_return = np.bincount(returns, minlength=16)[1:].astype(np.uint64)
        self.header.counts_by_return += by_return

    def complete(self) -> None:
        """Write what follows the points, and the header with its final counts."""
        with self.file:
            self._sink.finish()
            if self.header.count:
                corners = np.stack([self._low, self._high])
                box = np.sort(corners * self._frame.scales + self._frame.offsets, axis=0)
                self.header.low, self.header.high = box
            write_evlrs(self.file, self.header)
            write_header(self.file, self.header)


def _with_digits(frame: Frame, points: NDArray[np.float64]) -> tuple[Frame, int | None]:
    """A frame with a scale that fits the digits of the points (M, 3), and their decimals.

    Numbers from a text file have few digits: a scale of 0.001 then holds them without a change,
    in a smaller file than the finest scale. Other points keep the frame.
    """
    decimals = decimals_of(points)
    if decimals is None:
        return frame, None
    scales = np.full(3, float(f"1e-{decimals}"))
    coarser = Frame(scales, frame.offsets)
    if (scales < frame.scales).any() or not have_decimals(frame.offsets[None], decimals):
        return frame, None
    return coarser, decimals


def _too_large(plan: Plan, chunk: PointCloud) -> frozenset[str]:
    """Attributes with values too large for the bits of their standard dimension."""
    return frozenset(
        column.name
        for column in plan.columns
        if column.standard
        and (bits := column.dimensions[0].bits)
        and int(chunk.attributes[column.name].max()) >= 1 << bits
    )
