"""`pdflow noise`: a noisy copy of a cloud, or a simulated scan of a mesh."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pdflow.cli.batch import check_plot, save_plot
from pdflow.cli.files import Job, naming, plan_clouds, read_finite, say_dropped
from pdflow.cli.options import (
    AsJson,
    DropNonfinite,
    InputFormat,
    Inputs,
    Output,
    OutputFormat,
    Plot,
    Seed,
    option,
)
from pdflow.cli.progress import Result, say_results
from pdflow.errors import PdflowError
from pdflow.noise.kinds import KINDS

if TYPE_CHECKING:
    from pdflow.cloud import PointCloud
    from pdflow.mesh import TriangleMesh

NAME = "noise"

LIDAR = "lidar"


def run(
    inputs: Inputs,
    output: Output,
    kind: Annotated[
        str,
        option(
            "--kind KIND",
            f"Kind of noise: {', '.join(KINDS)}; or lidar, which scans a mesh.",
        ),
    ] = "gaussian",
    level: Annotated[
        float,
        option(
            "--level LEVEL",
            "Noise level relative to the radius of the bounding sphere.",
            min=0.0,
        ),
    ] = 0.02,
    seed: Seed = 0,
    plot: Plot = None,
    format: InputFormat = None,
    to: OutputFormat = None,
    drop_nonfinite: DropNonfinite = False,
    as_json: AsJson = False,
) -> None:
    """Add noise to clouds, or scan meshes.

    Only the points of a cloud move; rows, attributes and metadata stay.
    With `--kind lidar` the input is a mesh and the output is a simulated scan of it.
    """
    if kind not in (*KINDS, LIDAR):
        raise PdflowError(
            f"Unknown kind of noise {kind!r}: choose one of {', '.join((*KINDS, LIDAR))}."
        )
    scans = kind == LIDAR
    results = []
    jobs = plan_clouds(inputs, output, to, suffix_of_format="ply" if scans else None)
    check_plot(plot, jobs)
    before: PointCloud | TriangleMesh
    for job in jobs:
        if scans:
            before, noisy, extra = _scan(job, level, seed, format)
        else:
            before, noisy, extra = _move(job, kind, level, seed, format, drop_nonfinite)
        job.write(noisy, to)
        if plot is not None:
            save_plot(plot, before, noisy)
        facts = {"kind": kind, "level": level, "seed": seed, "points": len(noisy)}
        results.append(job.result(**facts, **extra))
    say_results(results, as_json, _describe)


def _move(
    job: Job, kind: str, level: float, seed: int, format: str | None, drop: bool
) -> tuple[PointCloud, PointCloud, Result]:
    import numpy as np

    from pdflow.noise.models import add_noise

    cloud, dropped = read_finite(job.source, format, drop)
    with naming(job.source):
        points = add_noise(cloud.points, kind, level, seed=seed)
    sq_moves = np.square(points - cloud.points).sum(1)
    moved = float(np.sqrt(sq_moves.mean()))
    return cloud, cloud.with_points(points), {"dropped": dropped, "rms_displacement": moved}


def _scan(
    job: Job, level: float, seed: int, format: str | None
) -> tuple[TriangleMesh, PointCloud, Result]:
    from pdflow.io import read_mesh
    from pdflow.noise.lidar import simulate_lidar

    mesh = read_mesh(job.source, format)
    with naming(job.source):
        return mesh, simulate_lidar(mesh, level=level, seed=seed), {}


def _describe(result: Result) -> str:
    line = f"{result['file']} -> {result['output']}: {result['points']} points"
    if result["kind"] == LIDAR:
        return f"{line} seen by the scanner"
    moved = f"moved by {result['rms_displacement']:.6g} (root mean square)"
    return f"{line} {moved}{say_dropped(result['dropped'])}"
