"""`pdflow denoise`: the product. Noisy files in, clean files out, no parameter needed."""

from __future__ import annotations

from typing import Annotated, Literal, cast

from pdflow.cli.files import naming, plan_clouds, read_finite, require_folders, say_dropped
from pdflow.cli.options import (
    AsJson,
    Device,
    DropNonfinite,
    InputFormat,
    Inputs,
    Output,
    OutputFormat,
    option,
)
from pdflow.cli.progress import Result, progress, say_results
from pdflow.errors import PdflowError

NAME = "denoise"


def run(
    inputs: Inputs,
    output: Output,
    mode: Annotated[
        str,
        option(
            "--mode MODE",
            "points: every point keeps its row and attributes and is moved; "
            "resample: evenly spread new points.",
        ),
    ] = "points",
    points: Annotated[
        int | None, option("--points N", "Number of points to resample to.", min=1)
    ] = None,
    iterations: Annotated[
        str, option("--iterations N", "Passes, or auto: as the estimated noise asks for.")
    ] = "auto",
    partitions: Annotated[
        str,
        option("--partitions N", "Sparser clouds that the first pass works on, or auto."),
    ] = "auto",
    overlap: Annotated[
        float, option("--overlap X", "Patches that a point is in, on average.")
    ] = 3.0,
    radius: Annotated[
        float | None,
        option("--radius R", "Keep patches in balls of this radius (default: by count)."),
    ] = None,
    outliers: Annotated[
        str,
        option(
            "--outliers WHAT",
            "Points with no surface near them: keep, mark (adds a column) or remove.",
        ),
    ] = "keep",
    displacement: Annotated[
        bool, option("--displacement", "Store each point's move as an attribute.")
    ] = False,
    model: Annotated[str, option("--model MODEL", "Shipped model or weight file.")] = "pdflow",
    device: Device = None,
    seed: Annotated[
        int | None,
        option("--seed SEED", "Draw the extra dimensions instead of their mean.", min=0),
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
    jobs = plan_clouds(inputs, output, to)
    require_folders(jobs)
    passes, split = _count("--iterations", iterations), _count("--partitions", partitions)

    from pdflow.device import best_device
    from pdflow.pipeline.denoise import Denoiser, Mode, Outliers
    from pdflow.weights import load_model

    denoiser = Denoiser(
        load_model(model, device or best_device()),
        mode=cast("Mode", mode),
        iterations=passes,
        partitions=split,
        points=points,
        overlap=overlap,
        radius=radius,
        outliers=cast("Outliers", outliers),
        displacement=displacement,
        seed=seed,
    )
    results: list[Result] = []
    for job in jobs:
        cloud, dropped = read_finite(job.source, format, drop_nonfinite)
        with naming(job.source), progress(job.source.name, total=1.0) as advance:
            denoised = denoiser(cloud, advance)
        job.write(denoised.cloud, to)
        results.append(job.result(dropped=dropped, **denoised.report.as_dict()))
    say_results(results, as_json, _describe)


def _count(option: str, value: str) -> int | Literal["auto"]:
    if value == "auto":
        return "auto"
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
        + (f", the first on {result['partitions']} partitions" if result["partitions"] > 1 else ""),
        f"  moved by    {result['mean_displacement']:.6g} on average, "
        f"{result['max_displacement']:.6g} at most",
        f"  outliers    {result['outliers']}",
        f"  took        {result['seconds']:.1f} s",
    ]
    return "\n".join(lines)
