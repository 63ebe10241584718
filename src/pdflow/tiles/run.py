"""A run over tiles, from its inputs to its outputs; repeated after a stop, it goes on."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pdflow import __version__
from pdflow.errors import PdflowError
from pdflow.model import PDFlow
from pdflow.pipeline.results import Report
from pdflow.pipeline.survey import Survey
from pdflow.tiles.assemble import Results, Totals, write_output
from pdflow.tiles.index import Inputs, make_index
from pdflow.tiles.progress import INDEX, TWO_SCALES, WRITE, Clock, StepListener
from pdflow.tiles.sealed import read_arrays, write_arrays, write_sealed
from pdflow.tiles.stages import (
    LIMIT,
    OUTLIERS,
    SCALES,
    Tiles,
    load_survey,
    open_tiles,
    pass_name,
    passes_made,
    save_survey,
)
from pdflow.tiles.state import (
    file_facts,
    locked,
    model_facts,
    open_store,
    remove_store,
    state_folder,
)
from pdflow.tiles.store import Store
from pdflow.tiles.workers import Workers, this_process


@dataclass(frozen=True)
class TileRun:
    """Everything that a run over tiles depends on; call it to run, or to go on.

    inputs       files that are one cloud
    outputs      one for each, and `to`, their format if their suffixes do not say
    model        a loaded network, and `device`, where workers run it
    options      the other options of `Denoiser`
    tile_points  largest tile
    history      line for outputs that says how they were made; None for none
    """

    inputs: Inputs
    outputs: Sequence[Path]
    to: str | None
    model: PDFlow
    device: str | None
    options: dict[str, Any]
    tile_points: int
    history: str | None = None

    def __call__(
        self, workers: Workers = this_process, listener: StepListener | None = None
    ) -> list[tuple[Totals, Report]]:
        """Write all outputs; what was counted, and a report, for each."""
        start = time.perf_counter()
        if self.options.get("mode", "points") != "points":
            raise PdflowError(
                "mode='resample' needs the whole cloud in memory: give more memory, or resample "
                "smaller parts."
            )
        _keep_inputs(self.inputs.paths, self.outputs)
        folder = state_folder(self.outputs)
        with locked(folder):
            store = open_store(folder, self._asked(), self.model)
            clock = Clock(0, listener)
            self._index(store, clock)
            tiles = open_tiles(store.folder, store.job["name"])
            made = self._stages(store, tiles, workers, clock)
            survey = load_survey(store)
            after = (tiles.noise_after(made) if made else survey.noise).sigma
            written = []
            for totals in self._write(store, clock):
                seconds = time.perf_counter() - start
                written.append((totals, _report(totals, survey, after, made, seconds)))
            open_tiles.cache_clear()
            remove_store(folder)
        return written

    def _asked(self) -> dict[str, Any]:
        """What another attempt must have in common with this one."""
        files = [file_facts(path) for path in self.inputs.paths]
        asked = {
            "inputs": files,
            "outputs": [str(path.resolve()) for path in self.outputs],
            "formats": [self.inputs.format, self.to, self.inputs.drop],
            "options": self.options,
            "device": self.device,
            "model": model_facts(self.model),
            "memory": self.tile_points,
            "version": __version__,
            "history": self.history,
        }
        return {**asked, "name": _name_of(asked)}

    def _index(self, store: Store, clock: Clock) -> None:
        clock.begin(INDEX)
        if not store.index_path.exists():
            clock.points = self.inputs.expected()
            noise = self.options.get("noise", "auto")
            attribute = noise if isinstance(noise, str) and noise != "auto" else None
            make_index(store, self.inputs, self.tile_points, attribute, clock.advance)
            clock.points = int(store.index.inputs.sum())
        else:
            clock.points = int(store.index.inputs.sum())
            clock.skip(clock.points)

    def _stages(self, store: Store, tiles: Tiles, workers: Workers, clock: Clock) -> int:
        """Do all stages of all tiles; the number of passes that were made."""
        if not store.survey_path.exists():
            save_survey(store, tiles.survey_sample())
        survey = load_survey(store)
        clock.passes = survey.plan.passes + (TWO_SCALES if survey.plan.coarse else 0)
        self._stage(store, OUTLIERS, workers, clock)
        if survey.plan.coarse:
            self._stage(store, SCALES, workers, clock)
        planned = survey.plan.passes
        known = passes_made(store) if store.passes_path.exists() else None
        made = 0
        while made < (planned if known is None else known):
            made += 1
            self._stage(store, pass_name(made), workers, clock)
            may_stop = known is None and made < planned
            if may_stop and tiles.passes.converged(survey.noise, tiles.noise_after(made)):
                break
        if known is None:
            write_sealed(store.passes_path, str(made).encode())
        self._stage(store, LIMIT, workers, clock)
        return made

    @staticmethod
    def _stage(store: Store, stage: str, workers: Workers, clock: Clock) -> None:
        index = store.index
        clock.begin(stage, len(index.tiles))
        missing = []
        for tile in range(len(index.tiles)):
            if store.is_done(stage, tile):
                clock.skip(index.points_of_tile(tile))
            else:
                missing.append(tile)
        # Large tiles first, so that workers end at about the same time.
        missing.sort(key=index.points_of_tile, reverse=True)
        if missing:
            workers(
                store.folder,
                store.job["name"],
                stage,
                missing,
                lambda tile: clock.advance(index.points_of_tile(tile), 1),
            )

    def _write(self, store: Store, clock: Clock) -> list[Totals]:
        """Write the outputs that an earlier attempt did not."""
        clock.begin(WRITE, len(self.outputs))
        results, written = Results(store), []
        for number, target in enumerate(self.outputs):
            done = store.folder / "written" / f"{number:07d}"
            count = int(store.index.inputs[number])
            if done.exists() and target.exists():
                file = read_arrays(done)
                results.taken = file["taken"]
                totals = Totals.from_json(file["totals"].item())
                clock.skip(count)
            else:
                totals = write_output(results, self.inputs, number, target, self.to)
                write_arrays(done, taken=results.taken, totals=totals.as_json())
                clock.advance(count, 1)
            written.append(totals)
        return written


def _keep_inputs(inputs: Sequence[Path], outputs: Sequence[Path]) -> None:
    """Refuse to replace an input, which a run that is stopped would read again."""
    for path in outputs:
        if path.exists() and any(path.samefile(source) for source in inputs):
            raise PdflowError(
                f"{path} is an input: a cloud larger than memory cannot replace it, so choose "
                "another output."
            )


def _name_of(asked: dict[str, Any]) -> str:
    """A name that tells this run from others."""
    import hashlib
    import json

    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:16]


def _report(
    totals: Totals, survey: Survey, noise_after: float, passes: int, seconds: float
) -> Report:
    return Report(
        points=totals.points,
        points_out=totals.points_out,
        outliers=totals.outliers,
        noise_before=survey.noise.sigma,
        noise_after=noise_after,
        iterations=passes,
        partitions=survey.plan.partitions,
        coarse_partitions=survey.plan.coarse,
        mean_displacement=totals.moved / max(totals.points, 1),
        max_displacement=totals.farthest,
        held_back=dict(totals.held_back),
        seconds=seconds,
        noise_kind=survey.noise.kind,
    )
