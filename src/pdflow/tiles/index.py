"""Index: read the inputs once, and sort their points into cells on disk."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from pdflow.cloud import PointCloud
from pdflow.errors import PdflowError
from pdflow.geometry.arrays import FloatArray, IntArray
from pdflow.geometry.cells import Cells, make_cells
from pdflow.geometry.morton import Grid
from pdflow.pipeline import large
from pdflow.pipeline.survey import known_level
from pdflow.tiles.sealed import checksum, writing
from pdflow.tiles.store import DTYPES, LEVELS, POINTS, ROWS, Index, Store, as_bytes

CHUNK = 500_000
"""Points that are read at once."""

RAW, RAW_LEVELS = "raw", "raw-levels"
"""Points and noise levels in the order of the inputs, until they are sorted."""


@dataclass(frozen=True)
class Inputs:
    """Files that are one cloud.

    paths   in the order of their rows
    format  of all, if their suffixes do not say
    drop    whether points that are not finite are dropped, instead of refused
    """

    paths: Sequence[Path]
    format: str | None = None
    drop: bool = False

    def expected(self) -> int:
        """Points of all inputs, by their headers; 0 if a format does not say."""
        from pdflow.io import find_format, open_reader

        total = 0
        for path in self.paths:
            if not hasattr(find_format(path, self.format).load(), "open_reader"):
                return 0
            with open_reader(path, self.format) as reader:
                if reader.header.count is None:
                    return 0
                total += reader.header.count
        return total

    def chunks(self, number: int) -> Iterator[tuple[PointCloud, int]]:
        """The finite points of one input in parts, and how many others each part had."""
        from pdflow.io import drop_nonfinite, open_reader

        path, row = self.paths[number], 0
        with open_reader(path, self.format) as reader:
            for chunk in reader.chunks(CHUNK):
                finite, dropped = drop_nonfinite(chunk)
                if dropped and not self.drop:
                    bad = row + int(np.argmin(np.isfinite(chunk.points).all(axis=1)))
                    raise PdflowError(
                        f"{path}: the point in row {bad} (counted from 0) is NaN or infinite: add "
                        "--drop-nonfinite to drop such points."
                    )
                row += len(chunk)
                yield finite, dropped


def make_index(
    store: Store,
    inputs: Inputs,
    tile_points: int,
    noise: str | None,
    advance: Callable[[float], None],
) -> Index:
    """Sort the points of all inputs into cells, in files of the store.

    tile_points  largest tile
    noise        attribute with the noise level of each point, or None
    advance      is called with the number of points just read
    """
    with writing(store.folder):
        counts, low, high = _spill(store, inputs, noise, advance)
        # Adding halves, rather than halving the sum, keeps the largest coordinates finite.
        center = low / 2 + high / 2
        grid = Grid.over(low - center, high - center)
        cells = make_cells(lambda: _centred(store, center), grid, large.CELL)
        boxes, sq_radius = _sort(store, cells, center, with_levels=noise is not None)
        for name in (RAW, RAW_LEVELS):
            (store.folder / name).unlink(missing_ok=True)
        scale = float(np.sqrt(sq_radius)) or 1.0
        tiles = cells.grouped(tile_points)
        files = [store.folder / name for name in DTYPES]
        sums = np.array([checksum(path) if path.exists() else 0 for path in files], np.int64)
        index = Index(cells, boxes, center, scale, tiles, np.array(counts, np.int64), sums)
    index.save(store.index_path)
    return index


def _spill(
    store: Store, inputs: Inputs, noise: str | None, advance: Callable[[float], None]
) -> tuple[list[int], FloatArray, FloatArray]:
    """Write the points of all inputs one after another; their numbers, and the bounding box."""
    low, high = np.full(3, np.inf), np.full(3, -np.inf)
    counts = []
    with (store.folder / RAW).open("wb") as raw, (store.folder / RAW_LEVELS).open("wb") as levels:
        for number in range(len(inputs.paths)):
            count = 0
            for chunk, _ in inputs.chunks(number):
                if not len(chunk):
                    continue
                low = np.minimum(low, chunk.points.min(axis=0))
                high = np.maximum(high, chunk.points.max(axis=0))
                raw.write(as_bytes(chunk.points.astype("<f8")))
                if noise is not None:
                    levels.write(as_bytes(np.asarray(known_level(chunk, noise), "<f8")))
                count += len(chunk)
                advance(len(chunk))
            counts.append(count)
    if not sum(counts):
        raise PdflowError(f"{inputs.paths[0]} holds no points: check the file.")
    return counts, low, high


def _read(path: Path, name: str) -> Iterator[NDArray]:
    """The records of a file, some at a time."""
    dtype = np.dtype(DTYPES[name])
    with path.open("rb") as file:
        while len(records := np.fromfile(file, dtype, CHUNK)):
            yield records


def _centred(store: Store, center: FloatArray) -> Iterable[FloatArray]:
    for points in _read(store.folder / RAW, POINTS):
        yield points - center


def _sort(
    store: Store, cells: Cells, center: FloatArray, with_levels: bool
) -> tuple[FloatArray, float]:
    """Write points, rows and levels in the order of the cells; the boxes of the cells, and the
    largest squared distance from the centre."""
    places = np.concatenate([[0], np.cumsum(cells.counts)])[:-1]
    boxes = np.empty((len(cells), 2, 3))
    boxes[:, 0], boxes[:, 1] = np.inf, -np.inf
    names = [POINTS, ROWS, *([LEVELS] if with_levels else [])]
    files = {name: (store.folder / name).open("wb") for name in names}
    sq_radius, row = 0.0, 0
    levels = _read(store.folder / RAW_LEVELS, LEVELS)
    try:
        for points in _read(store.folder / RAW, POINTS):
            centred = points - center
            sq_radius = max(sq_radius, float((centred * centred).sum(axis=1).max()))
            of_points = cells.of(centred)
            order = np.argsort(of_points, kind="stable")
            found, first = np.unique(of_points[order], return_index=True)
            boxes[found, 0] = np.minimum(
                boxes[found, 0], np.minimum.reduceat(centred[order], first)
            )
            boxes[found, 1] = np.maximum(
                boxes[found, 1], np.maximum.reduceat(centred[order], first)
            )
            values: dict[str, NDArray] = {POINTS: points[order], ROWS: row + order}
            if with_levels:
                values[LEVELS] = next(levels)[order]
            for name, file in files.items():
                _scatter(file, values[name], first, places[found])
            places[found] += np.diff(np.append(first, len(order)))
            row += len(points)
        for file in files.values():
            file.flush()
            os.fsync(file.fileno())
    finally:
        for file in files.values():
            file.close()
    return boxes, sq_radius


def _scatter(file: BinaryIO, values: NDArray, first: IntArray, places: IntArray) -> None:
    """Write groups of values, which begin at `first`, to places of a file in records."""
    size = values.itemsize * (values.shape[1] if values.ndim == 2 else 1)
    data = as_bytes(values)
    ends = [*first[1:].tolist(), len(values)]
    for begin, end, place in zip(first.tolist(), ends, places.tolist(), strict=True):
        file.seek(place * size)
        file.write(data[begin * size : end * size])
