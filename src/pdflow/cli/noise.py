"""`pdflow noise`: a noisy copy of a cloud, or what a scanner would see of a mesh."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from pdflow.cli.files import (
    DropNonfinite,
    InputFormat,
    Inputs,
    Job,
    Output,
    OutputFormat,
    expand_inputs,
    naming,
    plan_jobs,
    read_finite,
    require_cloud_targets,
    say_dropped,
    suffix_of,
)
from pdflow.cli.progress import AsJson, Result, say_results
from pdflow.errors import PdflowError

if TYPE_CHECKING:
    from pdflow.cloud import PointCloud

NAME = "noise"

LIDAR = "lidar"


def run(
    inputs: Inputs,
    output: Output,
    kind: Annotated[
        str,
        typer.Option(
            "--kind",
            help="Kind of noise: gaussian, anisotropic, unidirectional, uniform, discrete or "
            "laplace; or lidar, which scans a mesh.",
            metavar="KIND",
        ),
    ] = "gaussian",
    level: Annotated[
        float,
        typer.Option(
            "--level",
            help="How strong, relative to the radius of the bounding sphere.",
            min=0.0,
            metavar="LEVEL",
        ),
    ] = 0.02,
    seed: Annotated[
        int, typer.Option("--seed", help="Same seed, same result.", min=0, metavar="SEED")
    ] = 0,
    format: InputFormat = None,
    to: OutputFormat = None,
    drop_nonfinite: DropNonfinite = False,
    as_json: AsJson = False,
) -> None:
    """Add noise to clouds, or scan meshes.

    Rows, attributes and metadata of a cloud stay, only its points move.
    With `--kind lidar` the input is a mesh and the output is what a rotating scanner sees of it.
    """
    from pdflow.noise.models import KINDS

    if kind not in (*KINDS, LIDAR):
        raise PdflowError(f"Unknown noise {kind!r}: choose one of {', '.join((*KINDS, LIDAR))}.")
    scans = kind == LIDAR
    suffix = suffix_of("ply" if scans and to is None else to)
    results = []
    jobs = plan_jobs(expand_inputs(inputs), output, suffix)
    for job in require_cloud_targets(jobs, to):
        if scans:
            noisy, extra = _scan(job, level, seed, format)
        else:
            noisy, extra = _move(job, kind, level, seed, format, drop_nonfinite)
        _write(job, noisy, to)
        results.append(
            {
                "file": str(job.source),
                "output": str(job.target),
                "kind": kind,
                "level": level,
                "seed": seed,
                "points": len(noisy),
                **extra,
            }
        )
    say_results(results, as_json, _describe)


def _move(
    job: Job, kind: str, level: float, seed: int, format: str | None, drop: bool
) -> tuple[PointCloud, Result]:
    import numpy as np

    from pdflow.noise.models import add_noise

    cloud, dropped = read_finite(job.source, format, drop)
    with naming(job.source):
        points = add_noise(cloud.points, kind, level, seed=seed)
    sq_moves = np.square(points - cloud.points).sum(1)
    return cloud.with_points(points), {
        "dropped": dropped,
        "rms_displacement": float(np.sqrt(sq_moves.mean())),
    }


def _scan(job: Job, level: float, seed: int, format: str | None) -> tuple[PointCloud, Result]:
    from pdflow.io import read_mesh
    from pdflow.noise.lidar import simulate_lidar

    mesh = read_mesh(job.source, format)
    with naming(job.source):
        return simulate_lidar(mesh, level=level, seed=seed), {}


def _write(job: Job, cloud: PointCloud, to: str | None) -> None:
    from pdflow.io import write

    job.make_folder()
    write(job.target, cloud, to)


def _describe(result: Result) -> str:
    line = f"{result['file']} -> {result['output']}: {result['points']} points"
    if result["kind"] == LIDAR:
        return f"{line} seen by the scanner"
    moved = f"moved by {result['rms_displacement']:.6g} (root mean square)"
    return f"{line} {moved}{say_dropped(result['dropped'])}"
