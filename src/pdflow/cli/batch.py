"""Many inputs: results are printed as they are ready, and one bad file does not stop the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import typer

from pdflow.cli.files import Job
from pdflow.cli.progress import Result, say_results
from pdflow.errors import PdflowError


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
