"""Stages of a tile: each reads what the stage before left around the tile, and leaves its own.

    outliers  which points of the tile are outliers, or duplicates of an earlier point
    scales    where the first pass puts them at two scales, if the plan has two
    pass-1    where the first pass puts them, pass-2 the second, ...
    limit     where they end, in the frame of the inputs

A stage depends on the folder of the run alone: any process that sees the folder can do it, and all
get the same bits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdflow import __version__
from pdflow.device import named_device
from pdflow.errors import PdflowError
from pdflow.geometry.arrays import FloatArray, IntArray
from pdflow.geometry.components import FEWEST_POINTS
from pdflow.geometry.distinct import distinct
from pdflow.geometry.neighbors import NeighborSearch
from pdflow.noise.estimate import NoiseEstimate, estimate_remaining
from pdflow.pipeline import large
from pdflow.pipeline.denoise import Denoiser
from pdflow.pipeline.large import Layout
from pdflow.pipeline.outliers import Facts
from pdflow.pipeline.passes import Pass, Passes, blend
from pdflow.pipeline.plan import Plan
from pdflow.pipeline.restraint import noise_around, reach_of
from pdflow.pipeline.survey import Level, Survey, noise_of
from pdflow.pipeline.uncertainty import expected_error
from pdflow.tiles.halo import cells_for_limit, cells_for_pass, near_enough_for_limit
from pdflow.tiles.sealed import read_arrays, read_sealed, write_arrays
from pdflow.tiles.store import LEVELS, POINTS, ROWS, Index, Store
from pdflow.weights import load_model

OUTLIERS, SCALES, LIMIT = "outliers", "scales", "limit"
OUTLIER, DUPLICATE = 1, 2
"""Flags of a point."""


def result_type(options: Mapping[str, Any]) -> np.dtype[Any]:
    """What is known of a point in the end, by the options of a run.

    With uncertainty also where the network saw the point, and the error that it expects.
    """
    parts: list[Any] = [("point", "<f8", 3), ("outlier", "u1"), ("held_back", "u1")]
    if options.get("uncertainty"):
        parts += [("seen", "<f8", 3), ("expected", "<f8")]
    return np.dtype(parts)


def pass_name(number: int) -> str:
    """The name of a pass, counted from 1."""
    return f"pass-{number}"


@dataclass(frozen=True)
class Region:
    """A tile with its halo, rows ascending.

    rows    (m,) rows in the cloud
    cells   (m,) and the cell of each
    points  (m, 3) in the frame of the inputs, and `centred` around the centre of the cloud
    core    (c,) places here of the tile's own points, in the order of its cells
    order   (m,) place of each point in the order of the cells
    """

    rows: IntArray
    cells: IntArray
    points: FloatArray
    centred: FloatArray
    core: IntArray
    order: IntArray

    @staticmethod
    def load(store: Store, cells: IntArray, tile: int) -> Region:
        """Read the given cells (ascending), which hold those of the tile."""
        index = store.index
        rows = store.read_all(ROWS, cells)
        order = np.argsort(rows)
        of_points = np.repeat(cells, index.cells.counts[cells])
        points = store.read_all(POINTS, cells)[order]
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        core = place[np.isin(of_points, index.cells_of_tile(tile))]
        return Region(
            rows[order], of_points[order], points, points - index.center, core, order
        )  # fmt: skip

    def layout(self, index: Index, kept: NDArray[np.bool_]) -> Layout:
        """The layout of the points that a mask (m,) keeps; those of the tile are wanted."""
        wanted = np.zeros(len(self.rows), dtype=bool)
        wanted[self.core] = True
        every = Layout(self.rows, self.cells, index.cells.grid, index.sphere, wanted)
        return every.take(kept)


class Tiles:
    """A run, as a process that works on its tiles sees it."""

    def __init__(self, folder: Path) -> None:
        self.store = Store(folder)
        version, options = self.store.job["version"], self.store.job["options"]
        if version != __version__:
            raise PdflowError(
                f"This process has pdflow {__version__}, the run in {folder} another ({version}): "
                "install the same version everywhere."
            )
        model = load_model(folder / "model.safetensors", named_device(self.store.job["device"]))
        self.denoiser = Denoiser(model, **options)
        self.passes: Passes = self.denoiser.passes()
        self.size = model.config.patch_points
        self.result = result_type(options)
        # Beside its place, a point may have the squared disagreement of patches about it.
        self.place = np.dtype(("<f8", 4 if self.denoiser.uncertainty else 3))

    def survey_sample(self) -> Survey:
        """Decide for the whole cloud, from its sample."""
        index = self.store.index
        cells = large.sampled_cells(index.cells)
        rows = self.store.read_all(ROWS, cells)
        order = np.argsort(rows)
        points, place = distinct(self.store.read_all(POINTS, cells)[order] - index.center)
        level = self._level(cells, order)
        if isinstance(level, np.ndarray):
            level = level[np.unique(place, return_index=True)[1]]
        return self.denoiser.survey(NeighborSearch(points), level)[1]

    def run(self, stage: str, tile: int) -> None:
        """Do a stage of a tile."""
        if stage == OUTLIERS:
            self._find_outliers(tile)
        elif stage == SCALES:
            self._run_network(SCALES, 1, tile, load_survey(self.store))
        elif stage == LIMIT:
            self._limit(tile)
        else:
            self._pass(int(stage.removeprefix("pass-")), tile)

    def noise_after(self, passes: int) -> NoiseEstimate:
        """The noise of the sample after some passes."""
        index = self.store.index
        cells = large.sampled_cells(index.cells)
        order = np.argsort(self.store.read_all(ROWS, cells))
        kept = self.store.read_stage(OUTLIERS, cells, "u1")[order] == 0
        places = self._places(passes, cells, order)
        return estimate_remaining(NeighborSearch(places[kept, :3]))

    def _find_outliers(self, tile: int) -> None:
        survey, index = load_survey(self.store), self.store.index
        region = Region.load(self.store, self._cells_for_pass(tile, survey), tile)
        points, place = distinct(region.centred)
        first = np.unique(place, return_index=True)[1]
        search = NeighborSearch(points)
        is_first = np.zeros(len(region.rows), dtype=bool)
        is_first[first] = True
        outlier = self.denoiser.find_outliers(search, survey, region.layout(index, is_first))
        flags = outlier[place] * OUTLIER + ~is_first * DUPLICATE
        self.store.write(OUTLIERS, tile, flags[region.core].astype("u1"))

    def _pass(self, number: int, tile: int) -> None:
        survey = load_survey(self.store)
        if number == 1 and survey.plan.coarse:
            self._blend(tile, survey)
        else:
            self._run_network(pass_name(number), number, tile, survey)

    def _run_network(self, stage: str, number: int, tile: int, survey: Survey) -> None:
        """Leave what a pass makes of a tile; the place at a coarse scale comes last."""
        cells = self._cells_for_pass(tile, survey)
        region, kept, noise = self._load(cells, tile, survey)
        places = self._places(number - 1, cells, region.order)
        if stage == SCALES:
            places = np.concatenate([places, places[:, :3]], axis=1)
        spread = np.zeros(np.count_nonzero(kept)) if self.denoiser.uncertainty else None
        if np.count_nonzero(kept) >= FEWEST_POINTS:
            search, layout = NeighborSearch(places[kept, :3]), region.layout(self.store.index, kept)
            current = Pass(self.passes, search, noise, survey.plan, number - 1, layout, spread)
            fine, *coarse = current.answers()
            places[kept, :3] = fine
            if coarse:
                places[kept, -3:] = coarse[0]
        if spread is not None:
            places[kept, 3] += spread
        self.store.write(stage, tile, places[region.core])

    def _blend(self, tile: int, survey: Survey) -> None:
        """Leave the first pass of a tile, from its answers at two scales."""
        index = self.store.index
        cells = cells_for_limit(index, tile)  # it depends on fewer probes than the limit does
        region, kept, noise = self._load(cells, tile, survey)
        width = self.place.shape[0]
        both = self.store.read_stage(SCALES, cells, np.dtype(("<f8", width + 3)))[region.order]
        places = both[:, :width].copy()
        if np.count_nonzero(kept) >= FEWEST_POINTS:
            noisy, coarse, layout = (
                region.centred[kept],
                both[kept, -3:],
                region.layout(index, kept),
            )
            fine, plan = places[kept, :3], survey.plan
            places[kept, :3] = blend(noisy, fine, coarse, noise, plan, layout).points
        self.store.write(pass_name(1), tile, places[region.core])

    def _load(
        self, cells: IntArray, tile: int, survey: Survey
    ) -> tuple[Region, NDArray[np.bool_], NoiseEstimate]:
        """A region, which of its points (m,) are neither outliers nor duplicates, their noise."""
        region = Region.load(self.store, cells, tile)
        kept = self.store.read_stage(OUTLIERS, cells, "u1")[region.order] == 0
        level = self._level(cells, region.order)
        return region, kept, noise_of(region.centred[kept], survey, level, kept)

    def _limit(self, tile: int) -> None:
        survey, index = load_survey(self.store), self.store.index
        cells = cells_for_limit(index, tile)
        region = Region.load(self.store, cells, tile)
        flags = self.store.read_stage(OUTLIERS, cells, "u1")[region.order]
        kept = (flags == 0) & near_enough_for_limit(index, tile, region.centred, region.cells)
        places = self._places(passes_made(self.store), cells, region.order)
        held, expected = np.zeros(len(kept), np.uint8), np.full(len(kept), np.nan)
        seen = places[:, :3].copy()
        if np.count_nonzero(kept) >= FEWEST_POINTS:
            search, noisy = NeighborSearch(seen[kept]), region.centred[kept]
            noise = noise_of(noisy, survey, self._level(cells, region.order), kept)
            before, layout = NeighborSearch(noisy), region.layout(index, kept)
            reach = reach_of(before, layout.wanted)
            places[kept, :3], held[kept] = self.denoiser.limit(before, search, noise, layout, reach)
            if self.denoiser.uncertainty:
                asked = np.flatnonzero(np.asarray(layout.wanted))
                rows = np.flatnonzero(kept)[asked]
                expected[rows] = expected_error(
                    reach[asked], noise_around(noise, noisy[asked]), np.sqrt(places[rows, 3])
                )
        core = region.core
        _, place = distinct(region.centred[core])
        first = np.unique(place, return_index=True)[1][place]
        result = np.empty(len(core), self.result)
        moved = places[core, :3][first]
        still = (moved == region.centred[core]).all(axis=1, keepdims=True)
        result["point"] = np.where(still, region.points[core], moved + index.center)
        result["outlier"] = (flags[core] & OUTLIER) > 0
        result["held_back"] = held[core][first]
        if self.denoiser.uncertainty:
            result["seen"] = seen[core][first] + index.center
            result["expected"] = expected[core][first]
        self.store.write(LIMIT, tile, result)

    def _cells_for_pass(self, tile: int, survey: Survey) -> IntArray:
        partitions = max(survey.plan.partitions, survey.plan.coarse)
        return cells_for_pass(self.store.index, tile, self.size * partitions)

    def _places(self, passes: int, cells: IntArray, order: IntArray) -> FloatArray:
        """Centred places after some passes, of the points of cells, in the given order; with
        uncertainty also the squared disagreement of patches."""
        if passes == 0:
            points: FloatArray = self.store.read_all(POINTS, cells)[order]
            places = np.zeros((len(points), *self.place.shape))
            places[:, :3] = points - self.store.index.center
            return places
        return self.store.read_stage(pass_name(passes), cells, self.place)[order]

    def _level(self, cells: IntArray, order: IntArray) -> Level:
        """The noise that the caller knows."""
        noise = self.denoiser.noise
        if noise == "auto":
            return None
        if isinstance(noise, str):
            level: FloatArray = self.store.read_all(LEVELS, cells)[order]
            return level
        return float(noise)


def passes_made(store: Store) -> int:
    """Passes of the run that were made, once all of them are."""
    return int(read_sealed(store.passes_path))


def save_survey(store: Store, survey: Survey) -> None:
    """Keep the survey in the folder of the run, for all who work on it."""
    noise = {f"noise.{f.name}": getattr(survey.noise, f.name) for f in fields(NoiseEstimate)}
    facts = {} if survey.facts is None else survey.facts._asdict()
    write_arrays(
        store.survey_path,
        outlier_limit=survey.outlier_limit,
        estimated_sigma=survey.estimated_sigma,
        plan=(survey.plan.passes, survey.plan.partitions, survey.plan.coarse),
        bounds=survey.plan.bounds,
        **noise,
        **{f"facts.{name}": value for name, value in facts.items()},
    )


def load_survey(store: Store) -> Survey:
    """The survey in the folder of a run."""
    file = read_arrays(store.survey_path)
    values: dict[str, Any] = {
        f.name: value.item() if value.ndim == 0 else value
        for f in fields(NoiseEstimate)
        for value in [file[f"noise.{f.name}"]]
    }
    passes, partitions, coarse = file["plan"].tolist()
    plan = Plan(passes, partitions, coarse, tuple(file["bounds"].tolist()))
    limit, sigma = float(file["outlier_limit"]), float(file["estimated_sigma"])
    facts = None
    if "facts.cut" in file:
        facts = Facts(file["facts.whole"], file["facts.shares"], float(file["facts.cut"]))
    return Survey(limit, sigma, NoiseEstimate(**values), plan, facts)


@lru_cache(maxsize=1)
def open_tiles(folder: Path, started: str) -> Tiles:
    """The run in a folder, opened once by each process.

    started  name of the run, so that another one in the same folder is opened anew
    """
    return Tiles(folder)


def run_stage(folder: str, started: str, stage: str, tile: int) -> tuple[str, int]:
    """Do a stage of a tile of the run in a folder, in any process."""
    open_tiles(Path(folder), started).run(stage, tile)
    return stage, tile
