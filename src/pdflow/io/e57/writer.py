"""Write a cloud in chunks as the scans of an E57 file, each with its own frame and header."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdflow.cloud import PointCloud
from pdflow.errors import PdflowError
from pdflow.io.atomic import moved_aside
from pdflow.io.e57.buffers import read_pieces
from pdflow.io.e57.fields import DIRECTION, SCAN, STATE, columns_to_write
from pdflow.io.e57.pose import Pose
from pdflow.io.e57.scan import Guid, Scan
from pdflow.io.e57.spill import Spill
from pdflow.io.e57.target import Root, Target
from pdflow.io.e57.tree import libe57_module
from pdflow.io.losses import warn_of_losses
from pdflow.io.stream import CHUNK, Field, Header, Writer

_MOST_SCANS = 100_000
_NUMBER, _VECTOR = Field(np.dtype(np.int32)), Field(np.dtype(np.float64), 3)


class E57Writer(Writer):
    """An E57 file that is written in chunks.

    Scans are written one after another. Points that come after their scan are kept on disk, and
    the file is written anew with them at the end: this is slow but rare.

    cloud  the whole cloud if known: its values say what `scan` and `direction` mean. Otherwise
           they mean what the reader means by them, in a cloud with the metadata of a reader.
    """

    def __init__(self, path: Path, header: Header, cloud: PointCloud | None = None) -> None:
        self._path, self._header = path, header
        self._libe57 = libe57_module("Writing E57")
        self._kept = _checked(header.metadata.get("e57", {}))
        self._headers: list[dict[str, Any]] = [dict(s) for s in self._kept.pop("scans", [])]
        self._extensions: dict[str, str] = dict(self._kept.pop("extensions", {}))
        values = None if cloud is None else cloud.attributes
        self._by_scan = self._has_scans(values)
        self._directed = self._has_directions(values)
        self._lost: list[str] = []
        if len(self._headers) > 1 and not self._by_scan:
            self._lost.append("metadata 'e57.scans' (the cloud has no attribute 'scan')")
            self._headers = []
        self._guid = Guid("file")
        self._scans: list[Scan] = []
        self._last = 0
        self._unsorted = False
        self._spill: Spill | None = None
        self._target: Target | None = None

    def write(self, chunk: PointCloud) -> None:
        """Append points."""
        if not len(chunk):
            return
        with self._explained():
            if self._target is None:
                self._target = Target(self._path, self._libe57)
                self._begin(chunk)
            self._guid.add(chunk.points)
            self._check(chunk)
            for number, part in self._by_number(chunk):
                for start in range(0, len(part), CHUNK):
                    self._append(number, part[start : start + CHUNK])

    def finish(self) -> None:
        """Complete the file and warn of what was left out."""
        assert self._target is not None
        try:
            with self._explained():
                self._reach(max(len(self._headers), 1) - 1)
                self._target.end_scan(self._scans[-1])
                self._target.complete(self._root, self._guid)
                if self._spill is not None:
                    self._write_anew(self._spill)
        except BaseException:
            self.abort()
            raise
        if self._spill is not None:
            self._spill.close()
        if self._unsorted:
            self._lost.insert(0, "points in this order (they are now sorted by scan)")
        warn_of_losses("E57", self._lost + self._target.lost)

    def abort(self) -> None:
        """Close the file without completing it."""
        if self._target is not None:
            self._target.cancel()
        if self._spill is not None:
            self._spill.close()

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn the errors of the library into errors of the system, such as a full disk."""
        try:
            yield
        except self._libe57.E57Exception as error:
            raise OSError(str(error).splitlines()[0]) from error

    def _begin(self, chunk: PointCloud) -> None:
        """Choose point fields, and write what is known before the points."""
        assert self._target is not None
        left_out = {SCAN} if self._by_scan else set()
        left_out |= {DIRECTION} if self._directed else set()
        empty = [n for n, v in chunk.attributes.items() if not v.size]
        fields = {n: f for n, f in self._header.fields.items() if n not in (*left_out, *empty)}
        self._columns, lost = columns_to_write(fields, self._extensions)
        self._lost += [f"attribute {name!r} (no columns)" for name in empty] + lost
        metadata, kept = self._header.metadata, self._kept
        self._root = Root.of(metadata, kept, self._columns, self._extensions, self._libe57)
        self._lost += self._root.lost
        self._target.begin(self._root)

    def _check(self, chunk: PointCloud) -> None:
        """Refuse numbers and directions that a reader does not give."""
        if self._by_scan and not _are_scans(chunk.attributes[SCAN]):
            raise PdflowError(
                f"The attribute {SCAN!r} has numbers that are no scans: give each point a number "
                f"from 0 to {_MOST_SCANS - 1}, or rename the attribute."
            )
        if self._directed and not _are_directions(chunk.attributes):
            raise PdflowError(
                f"The attribute {DIRECTION!r} has values where {STATE!r} is not 1, which E57 "
                "cannot hold: rename the attribute."
            )

    def _by_number(self, chunk: PointCloud) -> Iterator[tuple[int, PointCloud]]:
        """The points of each scan, by its number."""
        if not self._by_scan:
            yield 0, chunk
            return
        index = chunk.attributes[SCAN]
        self._unsorted |= bool(index[0] < self._last or (np.diff(index) < 0).any())
        self._last = int(index[-1])
        order = np.argsort(index, kind="stable")
        numbers, starts = np.unique(index[order], return_index=True)
        for number, rows in zip(numbers, np.split(order, starts[1:]), strict=True):
            yield int(number), chunk[rows]

    def _append(self, number: int, part: PointCloud) -> None:
        assert self._target is not None
        self._reach(number)
        scan = self._scans[number]
        fields = scan.add(part, self._directed)
        if number + 1 == len(self._scans):
            self._target.write(fields)
            return
        if self._spill is None:
            self._spill = Spill(self._path.parent)
        self._spill.add(scan, fields)

    def _reach(self, number: int) -> None:
        """Begin all scans up to this one, which may be begun already."""
        assert self._target is not None
        while len(self._scans) <= number:
            if self._scans:
                self._target.end_scan(self._scans[-1])
            new = len(self._scans)
            header = self._headers[new] if new < len(self._headers) else {}
            self._scans.append(Scan(new, header, self._columns))
            self._target.begin_scan(self._scans[-1])

    def _write_anew(self, spill: Spill) -> None:
        """Copy the points so far, scan by scan, each with its points that came later."""
        with moved_aside(self._path) as earlier:
            file = self._libe57.ImageFile(str(earlier), "r")
            try:
                self._target = Target(self._path, self._libe57)
                self._target.begin(self._root)
                for scan in self._scans:
                    points = file.root()["data3D"][scan.number]["points"]
                    self._target.begin_scan(scan)
                    with closing(read_pieces(points, scan.types, CHUNK, file, self._libe57)) as old:
                        for fields in chain(old, spill.of(scan)):
                            self._target.write(fields)
                    self._target.end_scan(scan)
                self._target.complete(self._root, self._guid)
            finally:
                file.close()

    def _has_scans(self, values: Mapping[str, NDArray[Any]] | None) -> bool:
        """Whether the attribute `scan` says which scan a point belongs to."""
        if "e57" not in self._header.metadata or self._header.fields.get(SCAN) != _NUMBER:
            return False
        if values is None:
            return len(self._headers) > 1
        index = values[SCAN]
        return _are_scans(index) and (len(self._headers) > 1 or bool(index.max() > 0))

    def _has_directions(self, values: Mapping[str, NDArray[Any]] | None) -> bool:
        """Whether `direction` comes from a reader that met points with only a direction."""
        state = self._header.fields.get(STATE)
        if self._header.fields.get(DIRECTION) != _VECTOR or state is None or state.width:
            return False
        return "e57" in self._header.metadata if values is None else _are_directions(values)


def _checked(kept: Any) -> dict[str, Any]:
    """A copy of `metadata["e57"]` if it is valid."""
    try:
        copy = dict(kept)
        extensions, scans = dict(copy.get("extensions", {})), list(copy.get("scans", []))
        sound = all(isinstance(text, str) for pair in extensions.items() for text in pair)
        sound = sound and all(Pose.of(scan).valid for scan in scans)
    except (AttributeError, TypeError, ValueError):
        sound = False
    if not sound:
        raise PdflowError(
            "The cloud's metadata['e57'] is not a valid E57 header: remove it, and pdflow writes "
            "a new one."
        )
    return copy


def _are_scans(index: NDArray[Any]) -> bool:
    """Whether the values of `scan` (M,) can be scan numbers from a reader."""
    return index.ndim == 1 and bool(index.min() >= 0 and index.max() < _MOST_SCANS)


def _are_directions(values: Mapping[str, NDArray[Any]]) -> bool:
    """Whether only points without a place have a `direction`."""
    state = values[STATE]
    return state.ndim == 1 and bool(np.isnan(values[DIRECTION][state != 1]).all())
