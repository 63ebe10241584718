"""Many inputs: results are printed as they are ready, and one bad file does not stop the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from pdflow.cli.files import Job
from pdflow.cli.progress import Result, say_results
from pdflow.errors import PdflowError
from pdflow.lazy import require

if TYPE_CHECKING:
    from pdflow.cloud import PointCloud
    from pdflow.mesh import TriangleMesh

PLOT_SUFFIXES = (".png", ".pdf")


def run_jobs(
    jobs: Sequence[Job],
    work: Callable[[Job], Result],
    as_json: bool,
    describe: Callable[[Result], str],
) -> None:
    """Do all jobs; the sentence of one that fails is printed, and the error comes at the end.

    describe  turns a result into text; with `as_json` all results are printed at the end
    """
    results: list[Result] = []
    failed: list[Job] = []
    for number, job in enumerate(jobs, 1):
        try:
            result = work(job)
        except PdflowError as error:
            if len(jobs) == 1:
                raise
            failed.append(job)
            typer.echo(f"error: {' '.join(str(error).split())}", err=True)
            continue
        results.append(result)
        if not as_json:
            count = f"[{number} of {len(jobs)}] " if len(jobs) > 1 else ""
            typer.echo(count + describe(result))
    if as_json:
        say_results(results, as_json, describe)
    if failed:
        names = ", ".join(str(job.source) for job in failed)
        raise PdflowError(f"{len(failed)} of {len(jobs)} files failed ({names}): see above.")


def without_existing(jobs: Sequence[Job]) -> list[Job]:
    """The jobs whose output does not exist yet; says how many were left out."""
    missing = [job for job in jobs if not job.target.exists()]
    if len(missing) < len(jobs):
        typer.echo(f"{len(jobs) - len(missing)} of {len(jobs)} outputs exist: skipped", err=True)
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
