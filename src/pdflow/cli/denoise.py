"""`pdflow denoise`: the product. Noisy files in, clean files out, no parameter needed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated

import typer

from pdflow.cli.files import (
    DropNonfinite,
    InputFormat,
    Inputs,
    Output,
    OutputFormat,
    expand_inputs,
    naming,
    plan_jobs,
    read_finite,
    require_cloud_targets,
    require_folders,
    say_dropped,
    suffix_of,
)
from pdflow.cli.progress import AsJson, Result, progress, say_results
from pdflow.errors import PdflowError

NAME = "denoise"
BAR_STEPS = 1000


def run(
    inputs: Inputs,
    output: Output,
    mode: Annotated[
        str,
        typer.Option(
            "--mode",
            help="points: every point keeps its row and attributes and is moved; "
            "resample: evenly spread new points.",
            metavar="MODE",
        ),
    ] = "points",
    points: Annotated[
        int | None,
        typer.Option("--points", help="Number of points to resample to.", min=1, metavar="N"),
    ] = None,
    iterations: Annotated[
        str,
        typer.Option(
            "--iterations", help="Passes, or auto: as the estimated noise asks for.", metavar="N"
        ),
    ] = "auto",
    parts: Annotated[
        str,
        typer.Option(
            "--parts",
            help="Sparser parts the first pass works on, or auto (partition denoising).",
            metavar="N",
        ),
    ] = "auto",
    overlap: Annotated[
        float,
        typer.Option("--overlap", help="Patches that a point is in, on average.", metavar="X"),
    ] = 3.0,
    radius: Annotated[
        float | None,
        typer.Option(
            "--radius",
            help="Keep patches in balls of this radius (default: by count).",
            metavar="R",
        ),
    ] = None,
    outliers: Annotated[
        str,
        typer.Option(
            "--outliers",
            help="Points with no surface near them: keep, mark (adds a column) or remove.",
            metavar="WHAT",
        ),
    ] = "keep",
    displacement: Annotated[
        bool, typer.Option("--displacement", help="Store each point's move as an attribute.")
    ] = False,
    model: Annotated[
        str, typer.Option("--model", help="Shipped model or weight file.", metavar="MODEL")
    ] = "pdflow",
    device: Annotated[
        str | None,
        typer.Option("--device", help="cpu or cuda; default: the best there is.", metavar="DEVICE"),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            "--seed", help="Draw the extra dimensions instead of their mean.", min=0, metavar="SEED"
        ),
    ] = None,
    format: InputFormat = None,
    to: OutputFormat = None,
    drop_nonfinite: DropNonfinite = False,
    as_json: AsJson = False,
) -> None:
    """Remove noise from clouds.

    The noise level is estimated, and the number of passes follows from it. All attributes and
    metadata are kept.
    """
    jobs = require_cloud_targets(plan_jobs(expand_inputs(inputs), output, suffix_of(to)), to)
    require_folders(jobs)
    passes, first_parts = _count("--iterations", iterations), _count("--parts", parts)

    from pdflow.device import best_device
    from pdflow.io import write
    from pdflow.pipeline import Denoiser
    from pdflow.weights import load_model

    denoiser = Denoiser(
        load_model(model, device or best_device()),
        mode=mode,
        iterations=passes,
        parts=first_parts,
        points=points,
        overlap=overlap,
        radius=radius,
        outliers=outliers,
        displacement=displacement,
        seed=seed,
    )
    results: list[Result] = []
    for job in jobs:
        cloud, dropped = read_finite(job.source, format, drop_nonfinite)
        with naming(job.source), progress(job.source.name, BAR_STEPS) as advance:
            denoised = denoiser(cloud, partial(_advance, advance))
        job.make_folder()
        write(job.target, denoised.cloud, to)
        results.append(
            {
                "file": str(job.source),
                "output": str(job.target),
                "dropped": dropped,
                **denoised.report.as_dict(),
            }
        )
    say_results(results, as_json, _describe)


def _advance(bar: Callable[[float], None], share: float) -> None:
    bar(share * BAR_STEPS)


def _count(option: str, value: str) -> int | str:
    if value == "auto":
        return value
    try:
        return int(value)
    except ValueError:
        raise PdflowError(f"{option} is {value!r}: give a whole number, or auto.") from None


def _describe(result: Result) -> str:
    lines = [
        f"{result['file']} -> {result['output']}: {result['points_out']} points"
        f"{say_dropped(result['dropped'])}",
        f"  noise       {result['noise_before']:.6g} before, {result['noise_after']:.6g} after "
        "(estimated, in the cloud's unit)",
        f"  passes      {result['iterations']}"
        + (f", the first on {result['parts']} parts" if result["parts"] > 1 else ""),
        f"  moved by    {result['mean_displacement']:.6g} on average, "
        f"{result['max_displacement']:.6g} at most",
        f"  outliers    {result['outliers']}",
        f"  took        {result['seconds']:.1f} s",
    ]
    return "\n".join(lines)
