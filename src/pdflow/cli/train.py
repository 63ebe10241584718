"""`pdflow train`: weights from a folder of clean clouds and a recipe."""

from __future__ import annotations

import os
from contextlib import nullcontext
from dataclasses import replace
from math import inf
from pathlib import Path
from time import monotonic
from typing import Annotated

import typer

from pdflow.cli.options import Device, option, split_names
from pdflow.cli.progress import progress
from pdflow.errors import PdflowError

NAME = "train"


def run(
    data: Annotated[Path, option("--data DIR", "Folder of clean clouds or meshes.")],
    output: Annotated[Path, option("-o --output DIR", "Folder for checkpoint and weights.")],
    recipe: Annotated[
        str, option("--recipe RECIPE", "Shipped recipe or TOML file.")
    ] = "pdflow-fast",
    init: Annotated[
        str | None,
        option(
            "--init WEIGHTS",
            "Initial weights: a file or a shipped model; the filter may differ.",
        ),
    ] = None,
    minutes: Annotated[
        float, option("--minutes T", "Stop and save after this time, reading included.", min=0.0)
    ] = inf,
    anneal: Annotated[
        bool,
        option("--anneal", "Let the schedule end after --minutes, not after the recipe's steps."),
    ] = False,
    holdout: Annotated[
        str | None,
        option(
            "--holdout NAMES",
            "Shapes kept for validation, separated by commas; default: the recipe's.",
        ),
    ] = None,
    cache: Annotated[
        Path | None,
        option(
            "--cache DIR",
            "Folder for clouds sampled from meshes; default: cache in the output folder.",
        ),
    ] = None,
    device: Device = None,
) -> None:
    """Train a network, or resume in its folder.

    Run the same command again to go on where a run stopped.
    """
    if anneal and minutes == inf:
        raise PdflowError("--anneal needs --minutes: give the length of the schedule.")

    from pdflow.device import named_device
    from pdflow.train.folders import read_source
    from pdflow.train.recipe import load_recipe
    from pdflow.train.run import train

    start = monotonic()
    chosen = load_recipe(recipe)
    with progress("reading shapes", total=None):
        source = read_source(data, chosen.data.resolutions, cache or output / "cache")
    if holdout is not None:
        names = tuple(split_names(holdout))
        source.split(names)  # an error if one of them is not there
        chosen = replace(chosen, data=replace(chosen.data, holdout=names))
    is_first = os.environ.get("RANK", "0") == "0"  # of the processes that torchrun starts
    silent = nullcontext(lambda share: None)
    with progress("training", total=1.0) if is_first else silent as advance:
        trainer = train(
            chosen,
            source,
            output,
            named_device(device),
            minutes=max(0.0, minutes - (monotonic() - start) / 60),
            anneal=anneal,
            init=init,
            say=typer.echo,
            advance=advance,
        )
    if trainer.stop:
        raise typer.Abort
