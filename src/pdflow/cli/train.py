"""`pdflow train`: weights from a folder of clean clouds and a recipe."""

from __future__ import annotations

import os
from contextlib import nullcontext
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Annotated

import typer

from pdflow.cli.progress import progress
from pdflow.errors import PdflowError

NAME = "train"
BAR_STEPS = 1000


def run(
    data: Annotated[
        Path, typer.Option("--data", help="Folder of clean clouds or meshes.", metavar="DIR")
    ],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="Folder for checkpoint and weights.", metavar="DIR"),
    ],
    recipe: Annotated[
        str, typer.Option("--recipe", help="Shipped recipe or TOML file.", metavar="RECIPE")
    ] = "pdflow",
    init: Annotated[
        str | None,
        typer.Option(
            "--init",
            help="Weights to start from: a file or a shipped model; the filter may differ.",
            metavar="WEIGHTS",
        ),
    ] = None,
    minutes: Annotated[
        float,
        typer.Option("--minutes", help="Stop and save after this time.", min=0.0, metavar="T"),
    ] = inf,
    anneal: Annotated[
        bool,
        typer.Option(
            "--anneal", help="Let the schedule end with the minutes, not with the recipe's steps."
        ),
    ] = False,
    holdout: Annotated[
        str | None,
        typer.Option(
            "--holdout",
            help="Shapes kept for validation, with commas between; default: the recipe's.",
            metavar="NAMES",
        ),
    ] = None,
    cache: Annotated[
        Path | None,
        typer.Option(
            "--cache",
            help="Folder for clouds sampled from meshes; default: cache in the output folder.",
            metavar="DIR",
        ),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option("--device", help="cpu or cuda; default: the best there is.", metavar="DEVICE"),
    ] = None,
) -> None:
    """Train a network; called again with the same folder, it goes on where it stopped."""
    if anneal and minutes == inf:
        raise PdflowError("--anneal needs --minutes: say how long the schedule may take.")

    from pdflow.device import best_device
    from pdflow.train.folders import read_source
    from pdflow.train.recipe import load_recipe
    from pdflow.train.run import train

    chosen = load_recipe(recipe)
    if holdout is not None:
        names = tuple(name.strip() for name in holdout.split(",") if name.strip())
        chosen = replace(chosen, data=replace(chosen.data, holdout=names))
    source = read_source(data, chosen.data.resolutions, cache or output / "cache")
    is_first = os.environ.get("RANK", "0") == "0"  # of the processes that torchrun starts
    silent = nullcontext(lambda share: None)
    with progress("training", BAR_STEPS) if is_first else silent as bar:
        trainer = train(
            chosen,
            source,
            output,
            device or best_device(),
            minutes=minutes,
            anneal=anneal,
            init=init,
            say=typer.echo,
            advance=lambda share: bar(share * BAR_STEPS),
        )
    if trainer.stop:
        raise typer.Abort
