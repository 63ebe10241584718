"""The folder of a run: the sorted points, and what each stage left of each tile."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import DTypeLike, NDArray

from pdflow.geometry.arrays import FloatArray, IntArray
from pdflow.geometry.cells import Cells
from pdflow.geometry.frame import Frame
from pdflow.geometry.morton import Grid
from pdflow.tiles.sealed import (
    DamagedError,
    checksum,
    is_sound,
    read_arrays,
    write_arrays,
    write_sealed,
)

POINTS, ROWS, LEVELS = "points", "rows", "levels"
"""Files with a record for each point, in the order of the cells: coordinates in the inputs' frame,
rows counted over all inputs, and noise levels that the user knows."""

DTYPES: dict[str, DTypeLike] = {POINTS: ("<f8", 3), ROWS: "<i8", LEVELS: "<f8"}


@dataclass(frozen=True)
class Index:
    """Where the points of a run lie.

    cells     of the cloud; their grid is around its centre
    boxes     (C, 2, 3) bounding box of each cell
    center    (3,) of the cloud, which is subtracted from coordinates
    scale     of its unit sphere
    tiles     (T,) first cell of each tile
    inputs    (F,) points of each input
    sums      checksums of the files with a record for each point, in the order of DTYPES
    """

    cells: Cells
    boxes: FloatArray
    center: FloatArray
    scale: float
    tiles: IntArray
    inputs: IntArray
    sums: IntArray

    @cached_property
    def offsets(self) -> IntArray:
        """(C + 1,): place of the first point of each cell."""
        return np.concatenate([[0], np.cumsum(self.cells.counts)])

    @property
    def sphere(self) -> Frame:
        """The unit-sphere frame of the centred cloud."""
        return Frame(np.zeros(3), self.scale)

    def cells_of_tile(self, tile: int) -> IntArray:
        """The cells of a tile, which are consecutive."""
        ends = [*self.tiles.tolist(), len(self.cells)]
        return np.arange(ends[tile], ends[tile + 1])

    def points_of_tile(self, tile: int) -> int:
        """Number of points of a tile."""
        return int(self.cells.counts[self.cells_of_tile(tile)].sum())

    def save(self, path: Path) -> None:
        """Write the index to a file."""
        write_arrays(
            path,
            low=self.cells.grid.low,
            extent=self.cells.grid.extent,
            starts=self.cells.starts,
            counts=self.cells.counts,
            **{name: getattr(self, name) for name in _SAVED},
        )

    @staticmethod
    def load(path: Path) -> Index:
        """Read an index that `save` wrote."""
        file = read_arrays(path)
        grid = Grid(file["low"], float(file["extent"]))
        cells = Cells(grid, file["starts"], file["counts"])
        rest: dict[str, Any] = {name: file[name] for name in _SAVED}
        return Index(cells, **{**rest, "scale": float(rest["scale"])})


_SAVED = ("boxes", "center", "scale", "tiles", "inputs", "sums")


@dataclass(frozen=True)
class Store:
    """The folder of a run."""

    folder: Path

    @property
    def index_path(self) -> Path:
        """The file with the index."""
        return self.folder / "index.npz"

    @property
    def survey_path(self) -> Path:
        """The file with what was decided for the whole cloud."""
        return self.folder / "survey.npz"

    @property
    def passes_path(self) -> Path:
        """The file with the number of passes, once all of them are made."""
        return self.folder / "passes"

    @cached_property
    def index(self) -> Index:
        """The index, once it is made."""
        return Index.load(self.index_path)

    @cached_property
    def job(self) -> dict[str, Any]:
        """What the run is: inputs, options, outputs."""
        job: dict[str, Any] = json.loads((self.folder / "job.json").read_text("utf-8"))
        return job

    def path(self, stage: str, tile: int) -> Path:
        """The file that a stage leaves of a tile."""
        return self.folder / stage / f"{tile:07d}"

    def is_done(self, stage: str, tile: int) -> bool:
        """Whether a stage of a tile is complete."""
        return self.path(stage, tile).exists()

    def write(self, stage: str, tile: int, values: NDArray[Any]) -> None:
        """Leave the values of a tile's points, in the order of its cells: completely, or not."""
        write_sealed(self.path(stage, tile), as_bytes(values))

    def discard_damaged(self) -> None:
        """Remove what is not as it was written, so that it is made anew: to the same bits.

        Called when a run goes on, before anything is read.
        """
        for path in [*self.folder.glob("*/*"), self.index_path, self.survey_path, self.passes_path]:
            if path.exists() and not is_sound(path):
                path.unlink()
        if self.index_path.exists():
            files = [self.folder / name for name in DTYPES]
            sums = [checksum(path) if path.exists() else 0 for path in files]
            if sums != self.index.sums.tolist():
                self.index_path.unlink()
                vars(self).pop("index")

    def read_all(self, name: str, cells: IntArray) -> NDArray[Any]:
        """Records of the points of some cells (ascending), from a file of all points."""
        dtype = np.dtype(DTYPES[name])
        offsets = self.index.offsets
        parts = []
        with (self.folder / name).open("rb") as file:
            for first, last in _runs(cells):
                count = int(offsets[last] - offsets[first])
                file.seek(int(offsets[first]) * dtype.itemsize)
                parts.append(_read_records(file, dtype, count))
        return np.concatenate(parts)

    def read_stage(self, stage: str, cells: IntArray, dtype: DTypeLike) -> NDArray[Any]:
        """Records of the points of some cells (ascending), from the files of a stage."""
        record = np.dtype(dtype)
        index = self.index
        tiles = np.searchsorted(index.tiles, cells, side="right") - 1
        parts = []
        for tile in np.unique(tiles):
            begin = index.offsets[index.tiles[tile]]
            with self.path(stage, int(tile)).open("rb") as file:
                for first, last in _runs(cells[tiles == tile]):
                    file.seek(int(index.offsets[first] - begin) * record.itemsize)
                    count = int(index.offsets[last] - index.offsets[first])
                    parts.append(_read_records(file, record, count))
        return np.concatenate(parts)


def _read_records(file: BinaryIO, dtype: np.dtype[Any], count: int) -> NDArray[Any]:
    """The next records of a file."""
    records = np.fromfile(file, dtype, count)
    if len(records) < count:
        raise DamagedError(f"{file.name} is truncated: repeat the command, which makes it anew.")
    return records


def as_bytes(values: NDArray[Any]) -> memoryview:
    """The bytes of an array, without a copy if it is contiguous."""
    return np.ascontiguousarray(values).reshape(-1).view(np.uint8).data


def _runs(cells: IntArray) -> list[tuple[int, int]]:
    """Ranges of consecutive cells: the first, and the one after the last."""
    breaks = np.flatnonzero(np.diff(cells) != 1) + 1
    ends = [0, *breaks.tolist(), len(cells)]
    return [(int(cells[a]), int(cells[b - 1]) + 1) for a, b in pairwise(ends) if b > a]
