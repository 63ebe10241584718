"""`pdflow sample`: points on the surface of a mesh."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

from pdflow.cli.files import Job, naming, plan_clouds
from pdflow.cli.options import AsJson, InputFormat, Inputs, Output, OutputFormat, Seed, option
from pdflow.cli.progress import Result, say_results

NAME = "sample"


class Method(str, Enum):
    """How points are distributed over the surface."""

    even = "even"
    uniform = "uniform"


def run(
    inputs: Inputs,
    output: Output,
    points: Annotated[int, option("--points COUNT", "Exact number of points.", min=1)] = 10_000,
    method: Annotated[
        Method,
        option(
            "--method",
            "even: no two points much closer than the others; uniform: independent points.",
        ),
    ] = Method.even,
    seed: Seed = 0,
    format: InputFormat = None,
    to: OutputFormat = None,
    as_json: AsJson = False,
) -> None:
    """Put points on the surface of meshes."""
    jobs = plan_clouds(inputs, output, to, suffix_of_format="ply")
    results = [_sample(job, points, method.value, seed, format, to) for job in jobs]
    say_results(results, as_json, _describe)


def _sample(
    job: Job, count: int, method: str, seed: int, format: str | None, to: str | None
) -> Result:
    from pdflow.cloud import PointCloud
    from pdflow.geometry.sampling import sample_mesh
    from pdflow.io import read_mesh

    mesh = read_mesh(job.source, format)
    with naming(job.source):
        points, _ = sample_mesh(mesh, count, method=method, seed=seed)
    job.write(PointCloud(points), to)
    return job.result(points=len(points), method=method, seed=seed, area=float(mesh.areas.sum()))


def _describe(result: Result) -> str:
    return f"{result['file']} -> {result['output']}: {result['points']} points"
