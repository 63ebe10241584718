"""`pdflow convert`: from one format to another, chunk by chunk; every loss is reported."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path

from pdflow.cli.files import (
    Job,
    expand_inputs,
    open_finite,
    plan_jobs,
    say_dropped,
    split_output,
    suffix_of,
    target_format,
)
from pdflow.cli.options import (
    AsJson,
    DropNonfinite,
    InputFormat,
    InputsAndOutput,
    OptionalOutput,
    OutputFormat,
)
from pdflow.cli.progress import Result, say_results
from pdflow.errors import LossWarning, PdflowError

NAME = "convert"


def run(
    files: InputsAndOutput,
    output: OptionalOutput = None,
    to: OutputFormat = None,
    format: InputFormat = None,
    drop_nonfinite: DropNonfinite = False,
    as_json: AsJson = False,
) -> None:
    """Convert clouds or meshes to another format.

    All attributes and metadata are kept; a warning names what the other format cannot hold.
    Files are converted in chunks if both formats allow it (LAS, LAZ, E57, PLY, NPY and text), so
    they need not fit in memory.
    """
    inputs, output = split_output(files, output)
    jobs = plan_jobs(expand_inputs(inputs), output, suffix_of(to))
    conversions = [(job, _holds_mesh(job, format, to)) for job in jobs]
    results = [
        _convert_mesh(job, format, to) if mesh else _convert_cloud(job, format, to, drop_nonfinite)
        for job, mesh in conversions
    ]
    say_results(results, as_json, _describe)


def _holds_mesh(job: Job, format: str | None, to: str | None) -> bool:
    """Whether to convert a mesh; an error if one side is a mesh and the other a cloud."""
    from pdflow.io import find_format

    source, target = find_format(job.source, format), target_format(job.target, to)
    if source.points and target.points:
        return False
    if not source.mesh:
        raise PdflowError(
            f"{job.target}: {target.name} holds meshes but {job.source} is a cloud: "
            "choose a format for clouds, such as ply."
        )
    if not target.mesh:
        raise PdflowError(
            f"{job.source} is a mesh but {target.name} holds clouds: "
            "use `pdflow sample` to put points on it."
        )
    return True


def _convert_cloud(job: Job, format: str | None, to: str | None, drop: bool) -> Result:
    from pdflow.cloud import PointCloud
    from pdflow.io import CHUNK, open_writer, write

    with open_finite(job.source, format, drop) as chunks:
        job.make_folder()
        count = chunks.header.count
        if chunks.whole or (count is not None and count <= CHUNK):
            # A writer that sees all values can choose dtypes by them.
            write(job.target, PointCloud.concatenate(chunks), to)
        else:
            # If points may be dropped, their number is known only at the end.
            header = replace(chunks.header, count=None) if drop else chunks.header
            with open_writer(job.target, header, to) as writer:
                for chunk in chunks:
                    writer.write(chunk)
        return job.result(kind="cloud", points=chunks.count, dropped=chunks.dropped)


def _convert_mesh(job: Job, format: str | None, to: str | None) -> Result:
    from pdflow.io import read_mesh, write_mesh

    mesh = read_mesh(job.source, format)
    _warn_of_vertex_attributes(job.source, format)
    job.make_folder()
    write_mesh(job.target, mesh, to)
    return job.result(kind="mesh", vertices=len(mesh.vertices), faces=len(mesh.faces))


def _warn_of_vertex_attributes(source: Path, format: str | None) -> None:
    """Warn of vertex attributes in a file that can also be read as a cloud (PLY)."""
    from pdflow.io import find_format, open_reader

    if not find_format(source, format).points:
        return
    with open_reader(source, format) as reader:
        names = ", ".join(reader.header.fields)
    if names:
        warnings.warn(
            f"{source}: a mesh keeps only vertices and faces, not {names}.",
            LossWarning,
            stacklevel=2,
        )


def _describe(result: Result) -> str:
    if result["kind"] == "mesh":
        what = f"{result['vertices']} vertices, {result['faces']} faces"
    else:
        what = f"{result['points']} points{say_dropped(result['dropped'])}"
    return f"{result['file']} -> {result['output']}: {what}"
