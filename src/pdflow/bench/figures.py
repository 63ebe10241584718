"""Figures of the report: curves over a setting of the network, and clouds coloured by their error.

Each is written as PNG and PDF beside the results that it shows.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from pdflow.bench.cases import Case, Options, Points, percent, thousands
from pdflow.bench.layout import Grid, column_label
from pdflow.bench.methods import Method, choose_methods, require_installed
from pdflow.bench.score_layout import gaussian_cells
from pdflow.errors import PdflowError
from pdflow.io.atomic import atomic_path
from pdflow.lazy import require
from pdflow.provenance import source_version

CURVES = {"augment-dims": "D_a", "masked-dims": "D_m"}
"""Tables that are drawn as curves, and the setting of their rows."""
COLUMNS = ("cd", "p2m")
SUFFIXES = (".png", ".pdf")

ERRORS = "errors"
"""Name of the files of the error-coloured clouds: pictures, and what they show as JSON."""
ERROR_SHAPES = ("camel", "fandisk")
ERROR_METHODS = ("noisy", "cgal-jet", "cgal-bilateral", "pdflow-paper", "pdflow")
ERROR_POINTS, ERROR_LEVEL = 10_000, 0.02
_PANEL = (260, 220)
HIGHEST = 2.2
"""Top of a plot, relative to the noisy input: curves of networks that failed leave it."""

Curve = dict[float, list[float]]
"""Value of the setting -> a mean for each seed of the training."""


def curves_of(grid: Grid, setting: str, column: str) -> dict[str, Curve]:
    """How the networks were trained and used -> curve; means are over all cells of a row.

    Networks trained alike but for their seed are one curve.
    """
    row_name = re.compile(rf"{setting} = (\d+)( [^(]+)? \((.+?)(?:, seed \d+)?\)")
    found: dict[str, Curve] = {}
    for row in grid.rows:
        match = row_name.fullmatch(row.method)
        values = [value for (_, _, name), value in row.values.items() if name == column]
        if match and values and row.group != "published":
            label = match[3] + (f",{match[2]}" if match[2] else "")
            found.setdefault(label, {}).setdefault(float(match[1]), []).append(fmean(values))
    return found


def draw_curves(folder: Path, grids: Mapping[str, Grid]) -> list[Path]:
    """Draw the tables of CURVES that have been measured; the paths of what was written."""
    return [
        path
        for name, setting in CURVES.items()
        if name in grids
        for path in _draw(folder / name, grids[name], setting)
    ]


def _draw(path: Path, grid: Grid, setting: str) -> list[Path]:
    figures = require("matplotlib.figure", extra="train", purpose="Drawing curves")
    figure = figures.Figure(figsize=(9, 3.4), layout="constrained")
    for axes, column in zip(figure.subplots(1, len(COLUMNS)), COLUMNS, strict=True):
        for label, curve in curves_of(grid, setting, column).items():
            ordered = sorted(curve)
            lines = axes.plot(ordered, [fmean(curve[x]) for x in ordered], marker="o", label=label)
            for x in ordered:  # single seeds, where there are several
                seeds = curve[x] if len(curve[x]) > 1 else []
                axes.plot([x] * len(seeds), seeds, "_", color=lines[0].get_color())
        noisy = grid.row("noisy")
        values = [v for (_, _, c), v in noisy.values.items() if c == column] if noisy else []
        if values:
            axes.axhline(fmean(values), linestyle="--", color="gray", label="noisy input")
            axes.set_ylim(top=HIGHEST * fmean(values))
        axes.set_xlabel(f"${setting}$")
        axes.set_ylabel(column_label(column))
        axes.set_ylim(bottom=0)
        axes.grid(alpha=0.3)
    axes.legend(fontsize="small")
    paths = [path.with_name(path.name + suffix) for suffix in SUFFIXES]
    for each in paths:
        save_undated(figure, each)
    return paths


def save_undated(figure: Any, path: Path) -> None:
    """A figure of matplotlib as PNG or PDF without a date: the same figure gives the same bytes."""
    undated = {".png": {"Software": None}, ".pdf": {"CreationDate": None}}
    if path.suffix not in undated:
        raise PdflowError(f"{path}: curves are PNG or PDF: choose a name that ends so.")
    with atomic_path(path) as temporary:
        kind = path.suffix
        figure.savefig(temporary, dpi=100, format=kind[1:], metadata=undated[kind])


@dataclass(frozen=True)
class ErrorsShown:
    """What the picture of errors shows.

    errors  shape -> method -> mean distance to the surface, in percent of the bounding sphere
    """

    points: int
    level: float
    commit: str
    errors: dict[str, dict[str, float]]

    @staticmethod
    def read(folder: Path) -> ErrorsShown | None:
        """The one that was written into a results folder, if any."""
        path = folder / f"{ERRORS}.json"
        if not path.exists():
            return None
        try:
            return ErrorsShown(**json.loads(path.read_text()))
        except (ValueError, TypeError) as error:
            raise PdflowError(
                f"{path} is damaged: draw it again with `pdflow bench report --data DIR`."
            ) from error

    def caption(self) -> str:
        """In a sentence."""
        return (
            f"Denoised clouds of {thousands(self.points)} points with {percent(self.level)} of "
            "noise, coloured by the distance of each point to the true surface. The colours mean "
            "the same in all panels."
        )


def draw_errors(options: Options) -> list[Path]:
    """Draw several methods side by side on some shapes, each point coloured by its error."""
    from pdflow.render.figure import Shown, legend_of, save_figure
    from pdflow.render.panels import View

    methods = _shown_methods(options.methods)
    points = (options.points or (ERROR_POINTS,))[0]
    level = (options.levels or (ERROR_LEVEL,))[0]
    chosen = Options(
        data=options.data,
        folder=options.folder,
        points=(points,),
        levels=(level,),
        shapes=options.shapes or ERROR_SHAPES,
    )
    (cell,) = gaussian_cells(chosen, ())
    states = {method.name: method.load() for method in methods}
    clouds, means = [], {}
    for shape in cell.shapes:
        case = cell.load(shape)
        denoised = [method.denoise(states[method.name], case).points for method in methods]
        errors = [_errors(points, case) for points in denoised]
        means[shape] = {
            _short(method): round(float(error.mean()), 4)
            for method, error in zip(methods, errors, strict=True)
        }
        clouds += [
            Shown(f"{shape}: {_short(method)}", points, error)
            for method, points, error in zip(methods, denoised, errors, strict=True)
        ]
    # The noisy input would stretch the colours until all others look alike.
    judged = [cloud.color for cloud in clouds if not cloud.label.endswith(": noisy")]
    legend = legend_of("distance to the surface", "% of the radius", judged or [clouds[0].color])
    paths = [options.folder / f"{ERRORS}{suffix}" for suffix in SUFFIXES]
    for path in paths:
        save_figure(
            path,
            clouds,
            legend,
            sections=False,
            columns=len(methods),
            size=_PANEL,
            view=View(up="y"),
        )
    shown = ErrorsShown(points, level, source_version(), means)
    with atomic_path(options.folder / f"{ERRORS}.json") as temporary:
        Path(temporary).write_text(json.dumps(asdict(shown), indent=1) + "\n")
    return paths


def _shown_methods(names: Sequence[str] | None) -> list[Method]:
    """The named methods, or those of ERROR_METHODS that are installed."""
    if names is not None:
        return require_installed(choose_methods(names))
    return [method for method in choose_methods(ERROR_METHODS) if not method.missing]


def _short(method: Method) -> str:
    """The name of a method without the mode that everybody gets who names none."""
    return method.name.removesuffix(":points")


def _errors(points: Points, case: Case) -> Points:
    """(M,): distances of points (M, 3) to the mesh, in percent of the clean bounding sphere."""
    from pdflow.geometry.frame import unit_sphere
    from pdflow.geometry.triangles import closest_on_mesh

    assert case.mesh is not None
    sq_distances = closest_on_mesh(points, case.mesh)[0]
    result: Points = 100 * np.sqrt(sq_distances) / unit_sphere(case.clean).scale
    return result
