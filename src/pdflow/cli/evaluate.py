"""`pdflow evaluate`: how close clouds are to their ground truth."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pdflow.cli.batch import check_plot_name
from pdflow.cli.files import naming, read_cloud
from pdflow.cli.options import DropNonfinite, InputFormat, option, split_names
from pdflow.cli.progress import progress
from pdflow.errors import PdflowError

if TYPE_CHECKING:
    from pdflow.cloud import PointCloud
    from pdflow.mesh import TriangleMesh
    from pdflow.metrics.suite import Metric
    from pdflow.render.figure import Shown

NAME = "evaluate"

Row = dict[str, float]


def run(
    pred: Annotated[Path, typer.Argument(help="Cloud to judge, or a directory.", metavar="PRED")],
    clean: Annotated[Path, option("--clean CLEAN", "Ground-truth cloud, or a directory.")],
    mesh: Annotated[
        Path | None, option("--mesh MESH", "Ground-truth mesh, or a directory.")
    ] = None,
    metrics: Annotated[
        str | None,
        option(
            "--metrics NAMES",
            "Names separated by commas: cd, hd, p2m, p2m_pytorch3d, p2s, rms, emd, "
            "uniformity, uniformity_ball; cd_plain, hd_plain, p2m_plain, sq_p2s, sq_emd. "
            "Default: cd,hd and, with a mesh, p2m.",
        ),
    ] = None,
    csv: Annotated[Path | None, option("--csv FILE", "Write the table to a CSV file.")] = None,
    plot: Annotated[
        Path | None,
        option("--plot FILE", "Draw the clouds, coloured by error, as PNG or PDF."),
    ] = None,
    format: InputFormat = None,
    drop_nonfinite: DropNonfinite = False,
    as_json: Annotated[
        bool, option("--json", "Print {'mean': {...}, 'shapes': {NAME: {...}}} as JSON.")
    ] = False,
) -> None:
    """Measure how close clouds are to their ground truth.

    Give one cloud and its ground truth, or directories whose files are matched by name (elk.xyz,
    elk.ply, elk.off). All shapes have the same weight in the mean.
    CD, HD and P2M use squared distances, as in the tables of the literature; cd_plain and so on do
    not. CD, HD, P2S and EMD are measured in the unit sphere of the ground-truth points, P2M, RMS
    and uniformity in that of the mesh. The header of the table gives the power of ten of its
    values, such as x1e-4; JSON and CSV hold plain values.
    The plot shows the distance of every point to the mesh, or without a mesh to the nearest clean
    point, in radii of the ground truth's bounding sphere; for a single cloud beside the ground
    truth, and as a section.
    """
    from pdflow.io import atomic_path
    from pdflow.metrics import choose_metrics

    names = None if metrics is None else split_names(metrics)
    chosen = choose_metrics(names, mesh is not None)
    shapes = _match(pred, clean, mesh, format)
    _check_outputs(csv, plot, shapes)
    rows: dict[str, Row] = {}
    drawn: list[Shown] = []
    with ExitStack() as outputs:
        # Opened first, so that an output that cannot be written fails before the work.
        csv_file = outputs.enter_context(atomic_path(csv)) if csv else None
        plot_file = outputs.enter_context(atomic_path(plot)) if plot else None
        with progress("measuring", len(shapes)) as advance:
            for shape in shapes:
                rows[shape.name] = _measure(shape, chosen, format, drop_nonfinite, plot, drawn)
                advance(1)
        mean = {key: sum(row[key] for row in rows.values()) / len(rows) for key in _columns(chosen)}
        if csv_file:
            _write_csv(csv_file, rows, mean)
        if plot_file:
            highest = _plot(plot_file, drawn)
    if as_json:
        typer.echo(json.dumps({"mean": mean, "shapes": rows}, indent=2, allow_nan=False))
        return
    _print_table(chosen, rows, mean)
    if plot:
        typer.echo(f"{plot}: colours run from 0 (blue) to {highest:.3g} (red) of the radius.")


@dataclass(frozen=True)
class Shape:
    """The files of one shape."""

    name: str
    pred: Path
    clean: Path
    mesh: Path | None


def _match(pred: Path, clean: Path, mesh: Path | None, format: str | None) -> list[Shape]:
    """Which files belong together: the given ones, or those of the same name in directories."""
    given = {"PRED": pred, "--clean": clean} | ({"--mesh": mesh} if mesh else {})
    for path in given.values():
        try:
            if not path.exists():
                raise PdflowError(f"{path} does not exist: check the name.")
        except OSError as error:
            raise PdflowError(f"{path} cannot be read ({error.strerror}).") from error
    if not any(path.is_dir() for path in given.values()):
        return [Shape(pred.stem, pred, clean, mesh)]
    for path in given.values():
        if not path.is_dir():
            raise PdflowError(
                f"{path} is a file but another input is a directory: give files only, or "
                "directories only."
            )
    preds, cleans = _by_stem(pred, "points", format), _by_stem(clean, "points", format)
    meshes = _by_stem(mesh, "mesh", None) if mesh else {}
    for name, path in cleans.items():
        if name not in preds:
            raise PdflowError(
                f"{path} has no partner {name}.* in {pred}: a mean without it would mislead, so "
                "add it, or remove the shape from all directories."
            )
    for name, path in preds.items():
        for where, found in ((clean, cleans), (mesh, meshes)):
            if where and name not in found:
                raise PdflowError(f"{path} has no partner {name}.* in {where}: add it there.")
    return [Shape(name, preds[name], cleans[name], meshes.get(name)) for name in preds]


def _by_stem(folder: Path, kind: str, format: str | None) -> dict[str, Path]:
    """Stem -> file of a directory, sorted; only files of a format that holds `kind`."""
    from pdflow.io import FORMATS

    suffixes = {s for f in FORMATS if getattr(f, kind) for s in f.suffixes}
    found: dict[str, Path] = {}
    try:
        files = sorted(path for path in folder.iterdir() if path.is_file())
    except OSError as error:
        raise PdflowError(f"{folder} cannot be read ({error.strerror}).") from error
    for path in files:
        if path.name.startswith("."):
            continue
        if format is None and path.suffix.lower() not in suffixes:
            continue
        if path.stem in found:
            raise PdflowError(
                f"{found[path.stem]} and {path} have the same name: keep one of them there."
            )
        found[path.stem] = path
    if not found:
        what = "clouds" if kind == "points" else "meshes"
        raise PdflowError(f"{folder} holds no {what} of a known format: check the directory.")
    return found


def _check_outputs(csv: Path | None, plot: Path | None, shapes: Sequence[Shape]) -> None:
    """Refuse outputs with a wrong suffix, and outputs that would overwrite another file."""
    if plot:
        check_plot_name(plot)
    taken = {path.resolve() for s in shapes for path in (s.pred, s.clean, s.mesh) if path}
    for path in (csv, plot):
        if path and path.resolve() in taken:
            raise PdflowError(
                f"{path} would overwrite another file of this run: choose another name."
            )
        taken |= {path.resolve()} if path else set()


def _measure(
    shape: Shape,
    chosen: dict[str, Metric],
    format: str | None,
    drop: bool,
    plot: Path | None,
    drawn: list[Shown],
) -> Row:
    from pdflow.metrics import measure

    pred, clean = (read_cloud(path, format, drop) for path in (shape.pred, shape.clean))
    mesh = _read_surface(shape.mesh) if shape.mesh else None
    normals = clean.attributes.get("normals")
    with naming(shape.pred):
        row = measure(pred.points, clean.points, mesh, normals=normals, metrics=chosen)
        if plot:
            drawn += _shown(shape.name, pred, clean, mesh)
    return row


def _read_surface(path: Path) -> TriangleMesh:
    from pdflow.io import read_mesh

    mesh = read_mesh(path)
    if not len(mesh.faces):
        raise PdflowError(f"{path} has no faces: there is no surface to measure against.")
    degenerate = int((mesh.areas == 0).sum())
    if degenerate == len(mesh.faces):
        raise PdflowError(f"{path} has no area: all of its {degenerate} faces are degenerate.")
    if degenerate:
        typer.echo(
            f"warning: {path}: {degenerate} of {len(mesh.faces)} faces have no area; they count "
            "as segments.",
            err=True,
        )
    return mesh


def _shown(
    name: str, pred: PointCloud, clean: PointCloud, mesh: TriangleMesh | None
) -> list[Shown]:
    """The ground truth, and the cloud coloured by error, in the unit sphere of the former."""
    from pdflow.geometry.frame import unit_sphere
    from pdflow.metrics import point_errors
    from pdflow.render.figure import Shown

    frame = unit_sphere(clean.points)
    errors = point_errors(pred.points, mesh if mesh is not None else clean.points)
    return [
        Shown("ground truth", frame.apply(clean.points)),
        Shown(name, frame.apply(pred.points), errors / frame.scale),
    ]


def _plot(path: Path, drawn: Sequence[Shown]) -> float:
    """Draw one shape beside its truth, or many alone; return the value of the last colour."""
    from pdflow.render.figure import legend_of, save_figure

    judged = drawn[1::2]
    legend = legend_of("error", "of the radius", [cloud.color for cloud in judged])
    one = len(judged) == 1
    save_figure(path, drawn if one else judged, legend, sections=one)
    return legend.highest


def _columns(chosen: dict[str, Metric]) -> Iterator[str]:
    for metric in chosen.values():
        yield from metric.columns


def _write_csv(path: Path, rows: dict[str, Row], mean: Row) -> None:
    import csv

    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["shape", *mean])
        for name, row in [*rows.items(), ("mean", mean)]:
            writer.writerow([name, *(repr(row[key]) for key in mean)])


def _print_table(chosen: dict[str, Metric], rows: dict[str, Row], mean: Row) -> None:
    from rich.console import Console
    from rich.table import Table

    powers = {column: metric.exponent for metric in chosen.values() for column in metric.columns}
    table = Table("shape")
    for column, power in powers.items():
        table.add_column(f"{column}\n(x1e{power})", justify="right", no_wrap=True)
    for name, row in rows.items():
        table.add_row(name, *(f"{row[c] / 10.0**p:.3f}" for c, p in powers.items()))
    if len(rows) > 1:
        table.add_section()
        table.add_row("mean", *(f"{mean[c] / 10.0**p:.3f}" for c, p in powers.items()))
    # A pipe has no width: rows must not be wrapped there.
    Console(width=None if sys.stdout.isatty() else 16 * (len(powers) + 4)).print(table)
