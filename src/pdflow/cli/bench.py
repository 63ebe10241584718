"""`pdflow bench`: the tables of the paper, one command each."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pdflow.cli.options import Device, option, split_names, split_numbers
from pdflow.cli.progress import progress
from pdflow.errors import PdflowError

if TYPE_CHECKING:
    from pdflow.bench.cases import Options
    from pdflow.bench.tables.table import Table

NAME = "bench"
REPORT = "report"


def run(
    table: Annotated[
        str,
        typer.Argument(
            help="puset, uniformity, architecture, filters, augment-dims, masked-dims, dmrset, "
            "lidar, noise-types, training-noise, scans; or report: all tables in one document.",
            metavar="TABLE",
        ),
    ],
    data: Annotated[
        Path | None,
        option(
            "--data DIR",
            "Folder with the data; scans needs none. report: draw clouds coloured by their error.",
        ),
    ] = None,
    output: Annotated[
        Path, option("-o --output DIR", "Folder for results; existing results are kept.")
    ] = Path("results"),
    methods: Annotated[
        str | None,
        option(
            "--methods NAMES",
            "Names separated by commas: MODEL, MODEL:MODE, MODEL:MODE:PASSES, noisy, oracle, "
            "another tool, a Python file; default: all that are installed. For tables of trained "
            "networks: the names of their rows.",
        ),
    ] = None,
    points: Annotated[
        str | None, option("--points COUNTS", "Resolutions, such as 10000,50000.")
    ] = None,
    levels: Annotated[
        str | None, option("--levels LEVELS", "Noise levels, such as 0.01,0.02.")
    ] = None,
    shapes: Annotated[
        str | None,
        option("--shapes SHAPES", "Names separated by commas, or a number: only the first ones."),
    ] = None,
    heldout: Annotated[
        bool,
        option("--heldout", "puset: measure the training shapes that the recipe holds out."),
    ] = False,
    steps: Annotated[
        int | None,
        option(
            "--steps COUNT",
            "Training steps of each ablation; default: 500 of small networks, 9400 of the paper's.",
            min=1,
        ),
    ] = None,
    size: Annotated[
        str, option("--size SIZE", "Networks of the ablations: small (for a CPU) or paper.")
    ] = "small",
    train_seeds: Annotated[
        int, option("--train-seeds N", "Train each ablation with N seeds.", min=1)
    ] = 1,
    device: Device = None,
    seed: Annotated[int, option("--seed SEED", "Seed of the added noise.", min=0)] = 0,
    docs: Annotated[
        Path | None, option("--docs FILE.md", "report: the Markdown file to write.")
    ] = None,
) -> None:
    """Make a table of the paper, or of scans.

    It compares our models, other tools and published numbers.
    Every result is stored at once, so a stopped run resumes where it was, and methods can be added
    later. Results of different weights are kept apart by the hash of the weights.
    """
    if docs is not None and table != REPORT:
        raise PdflowError(f"--docs belongs to `pdflow bench {REPORT}`: leave it out.")

    from pdflow.bench.cases import Options
    from pdflow.bench.tables import find_table

    options = Options(
        data=data or Path(),
        folder=output,
        methods=None if methods is None else tuple(_named(methods)),
        points=None if points is None else tuple(map(round, split_numbers("--points", points))),
        levels=None if levels is None else tuple(split_numbers("--levels", levels)),
        shapes=_shapes(shapes),
        heldout=heldout,
        steps=steps,
        size=size,
        train_seeds=train_seeds,
        device=device,
        seed=seed,
    )
    if table == REPORT:
        _report(options, docs, with_errors=data is not None)
        return
    found = find_table(table)
    if data is None and found.needs_data:
        raise PdflowError(f"{table} needs data: add --data DIR.")
    _run(found, options)


def _run(table: Table, options: Options) -> None:
    from pdflow.bench.layout import build_grid
    from pdflow.bench.prepare import ready_methods, variants_of
    from pdflow.bench.records import Run, Store
    from pdflow.bench.runner import failures, missing_results, run_missing
    from pdflow.bench.writers import markdown_text, write_all

    name = table.name
    cells = table.cells(options)
    store = Store.open(options.folder / f"{name}.jsonl")
    trainings = len(variants_of(table, options))
    with progress(f"training {trainings} networks", trainings or None) as advance:
        methods, absent = ready_methods(table, options, advance)
    for method in absent:
        typer.echo(f"{method.name} is not installed: {method.missing}", err=True)
    missing = missing_results(cells, methods, store, options.seed)
    total = sum(each.cell.weight for each in missing)
    with progress(f"{name}: {len(missing)} results", round(total)) as advance:
        run_missing(missing, store, Run.here(_command(table, options), options.seed), advance)
    grid = build_grid(name, store)
    typer.echo(markdown_text(table, grid))
    for path in write_all(options.folder, table, grid):
        typer.echo(f"wrote {path}")
    failed = failures(cells, methods, store, options.seed)
    if failed:
        raise PdflowError(
            f"{len(failed)} results failed, the first of them {failed[0].key.method} on "
            f"{failed[0].key.shape} ({failed[0].remark.removeprefix('failed: ')}): see the table."
        )


def _report(options: Options, docs: Path | None, *, with_errors: bool) -> None:
    from pdflow.bench.figures import draw_curves, draw_errors
    from pdflow.bench.report import measured_grids, report_text
    from pdflow.bench.tables import TABLES
    from pdflow.bench.writers import write_all
    from pdflow.io import atomic_path

    if docs is None:
        raise PdflowError("A report needs an output file: add --docs FILE.md.")
    folder = options.folder
    grids = measured_grids(folder)
    for name, grid in grids.items():
        write_all(folder, TABLES[name], grid)
    drawn = draw_curves(folder, grids)
    drawn += draw_errors(options) if with_errors else []
    text = report_text(folder, docs)
    with atomic_path(docs) as temporary:
        Path(temporary).write_text(text)
    typer.echo(f"wrote {docs}, and the tables in {folder}")
    for path in drawn:
        typer.echo(f"wrote {path}")


def _command(table: Table, options: Options) -> str:
    """The command line, without paths of this machine."""
    words = ["pdflow", "bench", table.name] + (["--data", "DIR"] if table.needs_data else [])
    given = {
        "--methods": ",".join(Path(name).name for name in options.methods or ()),
        "--points": ",".join(map(str, options.points or ())),
        "--levels": ",".join(f"{level:g}" for level in options.levels or ()),
        "--shapes": ",".join(map(str, options.shapes))
        if isinstance(options.shapes, tuple)
        else str(options.shapes or ""),
    }
    if table.variants is not None:
        given["--steps"] = str(options.steps or "")
        given["--size"] = options.size
        given["--train-seeds"] = str(options.train_seeds) if options.train_seeds > 1 else ""
    for flag, value in given.items():
        words += [flag, value] if value else []
    return " ".join(words + (["--heldout"] if options.heldout else []))


def _shapes(text: str | None) -> int | tuple[str, ...] | None:
    if text is None:
        return None
    if not text.isdecimal():
        return tuple(split_names(text))
    if int(text) == 0:
        raise PdflowError("--shapes is 0: give a number from 1, or names.")
    return int(text)


def _named(methods: str) -> list[str]:
    names = split_names(methods)
    if not names:
        raise PdflowError("--methods is empty: give names separated by commas.")
    return names
