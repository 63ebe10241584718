"""Many inputs: each as a whole in memory or in tiles, those that touch together.

Results are printed as they are ready, and one bad file does not stop the others.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from pdflow.cli.files import Job, naming, read_finite, target_format
from pdflow.cli.progress import Result, progress, say_results
from pdflow.errors import PdflowError
from pdflow.lazy import require
from pdflow.pipeline.history import (
    outlier_class,
    with_digits,
    with_history,
    with_outlier_class,
)

if TYPE_CHECKING:
    from pdflow.cloud import PointCloud
    from pdflow.mesh import TriangleMesh
    from pdflow.pipeline.denoise import Denoiser
    from pdflow.tiles.choose import Way
    from pdflow.tiles.progress import Step
    from pdflow.tiles.workers import Workers

PLOT_SUFFIXES = (".png", ".pdf")


def run_jobs(
    groups: Sequence[Sequence[Job]],
    work: Callable[[Sequence[Job]], Sequence[Result]],
    as_json: bool,
    describe: Callable[[Result], str],
) -> None:
    """Do all jobs; the sentence of one that fails is printed, and the error comes at the end.

    groups    jobs that are done together, because their inputs are one cloud
    describe  turns a result into text; with `as_json` all results are printed at the end
    """
    results: list[Result] = []
    failed: list[Job] = []
    total = sum(map(len, groups))
    number = 0
    for group in groups:
        try:
            done = work(group)
        except PdflowError as error:
            if len(groups) == 1:
                raise
            failed += group
            number += len(group)
            typer.echo(f"error: {' '.join(str(error).split())}", err=True)
            continue
        results += done
        for result in done:
            number += 1
            if not as_json:
                count = f"[{number} of {total}] " if total > 1 else ""
                typer.echo(count + describe(result))
    if as_json:
        say_results(results, as_json, describe)
    if failed:
        names = ", ".join(str(job.source) for job in failed)
        raise PdflowError(f"{len(failed)} of {total} files failed ({names}): see above.")


def without_existing(groups: Sequence[Sequence[Job]]) -> list[Sequence[Job]]:
    """The groups of which an output does not exist yet; says how many files were left out."""
    missing = [group for group in groups if not all(job.target.exists() for job in group)]
    total, left = (sum(map(len, some)) for some in (groups, missing))
    if left < total:
        typer.echo(f"{total - left} of {total} outputs exist: skipped", err=True)
    return missing


def protect_inputs(jobs: Sequence[Job], overwrite: bool) -> None:
    """Refuse to overwrite an input unless that was asked for."""
    for job in jobs:
        if not overwrite and job.target.exists() and job.target.samefile(job.source):
            raise PdflowError(
                f"{job.source} would be overwritten: add --overwrite, or choose another output."
            )


def check_plot(plot: Path | None, jobs: Sequence[Job]) -> None:
    """Refuse a figure that cannot be drawn or would replace a file of the run, before the work."""
    if plot is None:
        return
    check_plot_name(plot)
    if len(jobs) != 1:
        raise PdflowError(f"--plot draws one cloud, not {len(jobs)}: give one input.")
    files = [path.resolve() for job in jobs for path in (job.source, job.target)]
    if plot.resolve() in files:
        raise PdflowError(f"{plot} would overwrite another file of this run: choose another name.")


def check_plot_name(plot: Path) -> None:
    """Refuse a figure of another format, in no folder, or without the library for its letters."""
    if plot.suffix.lower() not in PLOT_SUFFIXES:
        raise PdflowError(f"{plot}: plots are PNG or PDF: choose a name that ends in .png or .pdf.")
    if not plot.parent.is_dir():
        raise PdflowError(f"{plot}: folder {plot.parent} does not exist: create it first.")
    require("PIL", extra="plot", purpose="--plot")


def save_plot(plot: Path, before: PointCloud | TriangleMesh, after: PointCloud) -> None:
    """Draw before and after, and after coloured by how far its points moved, or are from a mesh."""
    import numpy as np

    from pdflow.cloud import PointCloud
    from pdflow.geometry.sampling import sample_mesh
    from pdflow.metrics import point_errors
    from pdflow.render.figure import legend_of, save_comparison
    from pdflow.viewer.scene import rows_match, unit_of

    if not isinstance(before, PointCloud):
        name, moved = "distance to the mesh", point_errors(after.points, before)
        before = PointCloud(sample_mesh(before, len(after), seed=0)[0])
    elif rows_match(before, after):
        name, moved = "displacement", np.linalg.norm(after.points - before.points, axis=1)
    else:
        name, moved = "distance to the input", point_errors(after.points, before.points)
    save_comparison(plot, before, after, moved, legend_of(name, unit_of(before), [moved]))
    typer.echo(f"{plot}: before, after and {name}, with a section", err=True)


def group_jobs(jobs: Sequence[Job], format: str | None, alone: bool) -> list[Sequence[Job]]:
    """Jobs whose inputs are one cloud, together.

    alone  whether every input is a cloud of its own
    """
    if alone or len(jobs) == 1:
        return [[job] for job in jobs]
    from pdflow.tiles.groups import touching_files

    groups = touching_files([job.source for job in jobs], format)
    return [[jobs[number] for number in group] for group in groups]


@dataclass(frozen=True)
class FilesIn:
    """The options that all files of a command share.

    denoiser  with its network
    device    as the user gave it
    format    of the inputs and `to` of the outputs, if suffixes do not say
    drop      whether to drop points that are not finite
    memory    as the user gave it
    history   line that says how a result was made
    plot      figure of before and after, or None
    advice    what is said with the time to go of a run that takes minutes
    """

    denoiser: Denoiser
    device: str | None
    format: str | None
    to: str | None
    drop: bool
    memory: str | None
    history: str
    plot: Path | None = None
    advice: str = ""

    @contextmanager
    def workers(self, count: int | None, cluster: str | None) -> Iterator[tuple[Workers, int]]:
        """Who does tiles, and how many they are: 0 for this process."""
        from pdflow.tiles.workers import connect, dask_workers, local_cluster, this_process

        if count is not None and cluster is not None:
            raise PdflowError("--workers and --cluster exclude each other: give one of them.")
        if count is None and cluster is None:
            yield this_process, 0
            return
        with local_cluster(count) if count else connect(str(cluster)) as client:
            yield dask_workers(client)

    def expect(self, group: Sequence[Job], workers: int | None) -> Result:
        """What denoising a group would take."""
        from pdflow.tiles.choose import expectation

        way = self._way(group, workers or 0)
        sources = [job.source for job in group]
        return expectation(sources, self.format, way, self.denoiser, workers or 1)

    @staticmethod
    def describe_expectation(facts: Result) -> str:
        """What denoising a group would take, as text."""
        from pdflow.tiles.choose import say_expectation

        return say_expectation(facts)

    def denoise(
        self, group: Sequence[Job], workers: tuple[Workers, int], as_json: bool
    ) -> list[Result]:
        """Denoise files that are one cloud."""
        do_tiles, count = workers
        way = self._way(group, count)
        if way.whole:
            return [self._whole(group[0])]
        return self._tiles(group, way, do_tiles, as_json)

    def _whole(self, job: Job) -> Result:
        cloud, dropped = read_finite(job.source, self.format, self.drop)
        bar = progress(job.source.name, total=1.0, estimates=True, advice=self.advice)
        with naming(job.source), bar as steps:
            denoised = self.denoiser(cloud, steps, steps.stage)
            steps.stage("writing")
            target = target_format(job.target, self.to)
            clean = with_digits(denoised.cloud, cloud, target.name)
            code = outlier_class(vars(self.denoiser), target.name)
            clean = with_outlier_class(clean, code)
            job.write(with_history(clean, self.history, target.name), self.to)
            if self.plot is not None:
                steps.stage("drawing")
                save_plot(self.plot, cloud, clean)
        return job.result(dropped=dropped, **denoised.report.as_dict())

    def _tiles(
        self, group: Sequence[Job], way: Way, workers: Workers, as_json: bool
    ) -> list[Result]:
        from pdflow.tiles.api import tile_options
        from pdflow.tiles.index import Inputs
        from pdflow.tiles.run import TileRun
        from pdflow.tiles.sample import sample_rows

        if self.plot is not None and self.denoiser.outliers == "remove":
            raise PdflowError(
                f"{group[0].source} is denoised in tiles: --plot then needs all points, so mark "
                "outliers instead of removing them."
            )
        for job in group:
            job.make_folder()
        sources = [job.source for job in group]
        run = TileRun(
            Inputs(sources, self.format, self.drop),
            [job.target for job in group],
            self.to,
            self.denoiser.model,
            self.device,
            tile_options(self.denoiser),
            way.tile_points,
            self.history,
        )
        with naming(sources[0]), showing_steps(sources[0].name, as_json) as listener:
            written = run(workers, listener)
        if self.plot is not None:
            before = sample_rows(group[0].source, self.format)
            save_plot(self.plot, before, sample_rows(group[0].target, self.to))
        return [
            job.result(dropped=totals.dropped, **report.as_dict())
            for job, (totals, report) in zip(group, written, strict=True)
        ]

    def _way(self, group: Sequence[Job], workers: int) -> Way:
        from pdflow.tiles.choose import choose_way
        from pdflow.tiles.memory import parse_size

        return choose_way(
            [job.source for job in group],
            [job.target for job in group],
            self.format,
            self.denoiser.mode,
            None if self.memory is None else parse_size(self.memory),
            workers,
            self.to,
        )


@contextmanager
def showing_steps(name: str, as_json: bool) -> Iterator[Callable[[Step], None]]:
    """Show the steps of a run on stderr: a bar on a terminal, or with `--json` a line for each."""
    if as_json:
        yield lambda step: typer.echo(json.dumps(step.as_dict()), err=True)
        return
    if not sys.stderr.isatty():
        yield lambda step: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(name, total=1.0)

        def show(step: Step) -> None:
            bar.update(task, completed=step.share, description=f"{name} {describe_step(step)}")

        yield show


def describe_step(step: Step) -> str:
    """A moment of a run for people: the tiles of its stage, the speed, and the time left."""
    left = ""
    if step.seconds_left is not None:
        minutes, seconds = divmod(round(step.seconds_left), 60)
        left = f", {minutes // 60}:{minutes % 60:02d}:{seconds:02d} left"
    return f"{step.stage} {step.tiles} of {step.of}, {step.points_per_second:.0f} points/s{left}"
