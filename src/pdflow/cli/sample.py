"""`pdflow sample`: points on the surface of a mesh."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import typer

from pdflow.cli.files import (
    InputFormat,
    Inputs,
    Job,
    Output,
    OutputFormat,
    expand_inputs,
    naming,
    plan_jobs,
    require_cloud_targets,
    suffix_of,
)
from pdflow.cli.progress import AsJson, Result, say_results

NAME = "sample"


class Method(str, Enum):
    """How points are spread over the surface."""

    even = "even"
    uniform = "uniform"


def run(
    inputs: Inputs,
    output: Output,
    points: Annotated[
        int, typer.Option("--points", help="How many points, exactly.", min=1, metavar="COUNT")
    ] = 10_000,
    method: Annotated[
        Method,
        typer.Option(
            "--method",
            help="even: no two points much closer than the others; uniform: independent points.",
        ),
    ] = Method.even,
    seed: Annotated[
        int, typer.Option("--seed", help="Same seed, same result.", min=0, metavar="SEED")
    ] = 0,
    format: InputFormat = None,
    to: OutputFormat = None,
    as_json: AsJson = False,
) -> None:
    """Put points on the surface of meshes."""
    jobs = plan_jobs(expand_inputs(inputs), output, suffix_of(to or "ply"))
    results = [
        _sample(job, points, method.value, seed, format, to)
        for job in require_cloud_targets(jobs, to)
    ]
    say_results(results, as_json, _describe)


def _sample(
    job: Job, count: int, method: str, seed: int, format: str | None, to: str | None
) -> Result:
    from pdflow.cloud import PointCloud
    from pdflow.geometry.sampling import sample_mesh
    from pdflow.io import read_mesh, write

    mesh = read_mesh(job.source, format)
    with naming(job.source):
        points, _ = sample_mesh(mesh, count, method=method, seed=seed)
    job.make_folder()
    write(job.target, PointCloud(points), to)
    return {
        "file": str(job.source),
        "output": str(job.target),
        "points": len(points),
        "method": method,
        "seed": seed,
        "area": float(mesh.areas.sum()),
    }


def _describe(result: Result) -> str:
    return f"{result['file']} -> {result['output']}: {result['points']} points"
