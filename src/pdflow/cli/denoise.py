"""`pdflow denoise`: noisy files in, clean files out, no parameter needed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, cast

from pdflow.cli.batch import (
    FilesIn,
    check_plot,
    group_jobs,
    protect_inputs,
    run_jobs,
    without_existing,
)
from pdflow.cli.files import Job, plan_clouds, require_folders, say_dropped, split_output
from pdflow.cli.options import (
    AsJson,
    Device,
    DropNonfinite,
    InputFormat,
    InputsAndOutput,
    OptionalOutput,
    OutputFormat,
    Plot,
    option,
)
from pdflow.cli.progress import Result, progress, say_results
from pdflow.errors import PdflowError
from pdflow.pipeline.history import describe_run

NAME = "denoise"

FASTER = "; --model pdflow-fast takes 0.6 of the time and is a little less accurate"
"""Said where a run of the default network on a CPU takes minutes."""

NOT_LESS = 0.95
"""Share of the noise that remains from which on it did not fall."""


def run(
    files: InputsAndOutput,
    output: OptionalOutput = None,
    mode: Annotated[
        str,
        option(
            "--mode MODE",
            "points: move every point, keep its row and attributes; "
            "resample: new points, evenly spread.",
        ),
    ] = "points",
    points: Annotated[
        int | None, option("--points N", "Number of points of a resampled cloud.", min=1)
    ] = None,
    iterations: Annotated[
        str,
        option(
            "--iterations N",
            "Passes through the network, or auto: chosen from the estimated noise.",
        ),
    ] = "auto",
    partitions: Annotated[
        str,
        option("--partitions N", "Sparse partitions for the first pass, or auto."),
    ] = "auto",
    overlap: Annotated[
        float, option("--overlap X", "Number of patches that cover a point, on average.")
    ] = 3.0,
    radius: Annotated[
        float | None,
        option("--radius R", "Radius of the patches; default: a fixed number of points."),
    ] = None,
    noise: Annotated[
        str,
        option(
            "--noise LEVEL",
            "Standard deviation of the noise in the cloud's unit, an attribute with one for each "
            "point, or auto.",
        ),
    ] = "auto",
    max_move: Annotated[
        float | None,
        option(
            "--max-move D",
            "Farthest that a point may move, in the cloud's unit; default: 5 standard deviations "
            "of the noise around it; inf: hold nothing back.",
        ),
    ] = None,
    classes: Annotated[
        str | None,
        option("--classes LIST", "Move only points of these classes, such as 2,6."),
    ] = None,
    where: Annotated[
        str | None,
        option(
            "--where CONDITION",
            "Move only points that meet conditions on x, y, z and attributes, such as "
            "'intensity > 10 and z < 5'.",
        ),
    ] = None,
    outliers: Annotated[
        str,
        option(
            "--outliers WHAT",
            "Outliers, points off any surface: keep, mark (class in LAS, else column) or remove.",
        ),
    ] = "keep",
    outlier_class: Annotated[
        int | None,
        option(
            "--outlier-class N",
            "Class that marked outliers get instead of a column; default: 7, in LAS files only.",
            min=0,
            max=255,
        ),
    ] = None,
    displacement: Annotated[
        bool, option("--displacement", "Store the displacement of each point as an attribute.")
    ] = False,
    uncertainty: Annotated[
        bool,
        option(
            "--uncertainty",
            "Store how far each point may still be off the surface (95 %) as an attribute.",
        ),
    ] = False,
    model: Annotated[
        str, option("--model MODEL", "Name of a shipped model, or a weight file.")
    ] = "pdflow",
    device: Device = None,
    seed: Annotated[
        int | None,
        option(
            "--seed SEED",
            "Sample the augmented dimensions with this seed, instead of their mean.",
            min=0,
        ),
    ] = None,
    plot: Plot = None,
    format: InputFormat = None,
    to: OutputFormat = None,
    drop_nonfinite: DropNonfinite = False,
    skip_existing: Annotated[
        bool, option("--skip-existing", "Leave out inputs whose output exists.")
    ] = False,
    overwrite: Annotated[
        bool, option("--overwrite", "Allow an output to replace its own input.")
    ] = False,
    memory: Annotated[
        str | None,
        option(
            "--memory SIZE",
            "Memory that each process may take, such as 4GiB; larger clouds are done in tiles. "
            "Default: half of what is free.",
        ),
    ] = None,
    separate: Annotated[
        bool, option("--separate", "Treat files that touch as unrelated clouds.")
    ] = False,
    workers: Annotated[
        int | None,
        option("--workers N", "Processes on this machine that do tiles (needs Dask).", min=1),
    ] = None,
    cluster: Annotated[
        str | None,
        option("--cluster ADDRESS", "Dask scheduler whose workers do tiles: tcp://host:8786."),
    ] = None,
    dry_run: Annotated[
        bool, option("--dry-run", "Print tiles, memory, disk and time, and write nothing.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Remove noise from clouds.

    The number of passes follows from the estimated noise level. All attributes and metadata are
    kept. Clouds that do not fit in memory are done in tiles; files that touch are one cloud. The
    same command goes on after a stop.
    """
    if outlier_class is not None and outliers != "mark":
        raise PdflowError("--outlier-class needs --outliers mark: nothing else marks points.")
    inputs, output = split_output(files, output)
    jobs = plan_clouds(inputs, output, to, folders=True)
    protect_inputs(jobs, overwrite)
    require_folders(jobs)
    check_plot(plot, jobs)
    groups = group_jobs(jobs, format, alone=separate or mode != "points")
    if skip_existing:
        groups = without_existing(groups)
    passes, split = _count("--iterations", iterations), _count("--partitions", partitions)
    with progress("loading the network", total=None):
        from pdflow.device import named_device
        from pdflow.pipeline.denoise import Denoiser, Mode, Outliers
        from pdflow.weights import load_model

        network = load_model(model, named_device(device))
    denoiser = Denoiser(
        network,
        mode=cast("Mode", mode),
        iterations=passes,
        partitions=split,
        points=points,
        overlap=overlap,
        radius=radius,
        noise=_level(noise),
        max_move=max_move,
        where=_condition(classes, where),
        outliers=cast("Outliers", outliers),
        outlier_class=outlier_class,
        displacement=displacement,
        uncertainty=uncertainty,
        seed=seed,
    )

    history = describe_run(denoiser, model)
    on_cpu = next(network.parameters()).device.type == "cpu"
    advice = FASTER if on_cpu and model == "pdflow" else ""
    files_in = FilesIn(denoiser, device, format, to, drop_nonfinite, memory, history, plot, advice)
    if dry_run:
        facts = [files_in.expect(group, workers) for group in groups]
        say_results(facts, as_json, files_in.describe_expectation)
        return
    with files_in.workers(workers, cluster) as do_tiles:

        def work(group: Sequence[Job]) -> list[Result]:
            return files_in.denoise(group, do_tiles, as_json)

        run_jobs(groups, work, as_json, _describe)


def _count(option: str, value: str) -> int | Literal["auto"]:
    if value == "auto":
        return "auto"
    try:
        return int(value)
    except ValueError:
        raise PdflowError(f"{option} is {value!r}: give a whole number or auto.") from None


def _condition(classes: str | None, where: str | None) -> str | None:
    """Both ways to select points, as one condition."""
    words = [f"classification in {classes}"] if classes is not None else []
    return " and ".join([*words, *([where] if where is not None else [])]) or None


def _level(value: str) -> float | str:
    """A noise level, or the name of an attribute."""
    try:
        return float(value)
    except ValueError:
        return value


REASONS = {
    "bound": "would have moved too far",
    "no_surface": "lie on no surface",
    "not_selected": "were not selected",
    "implausible": "lie too far apart to show a surface",
}
"""Why points are held back, in words."""


def _describe_held_back(counts: dict[str, int]) -> list[str]:
    """One line that says how many points were held back and why; none if there are none."""
    words = [f"{count} {REASONS[reason]}" for reason, count in counts.items() if count]
    return [f"  held back   {', '.join(words)}"] if words else []


def _describe_scales(result: Result) -> str:
    """What the first pass worked on, unless that was the whole cloud alone."""
    fine, coarse = result["partitions"], result["coarse_partitions"]
    if coarse:
        return f", the first blended from answers with {fine} and {coarse} partitions"
    return f", the first on {fine} partitions" if fine > 1 else ""


def _describe(result: Result) -> str:
    lines = [
        f"{result['file']} -> {result['output']}: {result['points_out']} points"
        f"{say_dropped(result['dropped'])}",
        f"  noise       {result['noise_before']:.6g} before, {result['noise_after']:.6g} after "
        f"{'where points may move ' * bool(result['held_back']['not_selected'])}"
        "(estimated, in the cloud's unit)",
        f"  passes      {result['iterations']}{_describe_scales(result)}",
        f"  moved by    {result['mean_displacement']:.6g} on average, "
        f"{result['max_displacement']:.6g} at most",
        f"  outliers    {result['outliers']}",
        *_describe_held_back(result["held_back"]),
        f"  took        {result['seconds']:.1f} s",
    ]
    if result["iterations"] and result["noise_after"] >= NOT_LESS * result["noise_before"] > 0:
        lines.append("  The noise did not fall: check the result before you use it.")
    elif not result["iterations"] and not any(result["held_back"].values()):
        lines.append("  There is hardly any noise, so nothing was moved.")
    if result["held_back"]["implausible"]:
        lines.append(
            "  No laser scanner has that much noise, so nothing was moved. To move points, give "
            "the level with --noise."
        )
    if result["noise_kind"] == "unclear":
        lines.append(
            "  The kind of noise is unclear: some of it may be fine detail. Look at the result, or "
            "give the level with --noise."
        )
    return "\n".join(lines)
