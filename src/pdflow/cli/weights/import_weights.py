"""`pdflow import-weights`: the authors' released tensors as a pdflow weight file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pdflow.cli.options import option

NAME = "import-weights"


def run(
    source: Annotated[
        Path,
        typer.Argument(
            help="The authors' tensors as safetensors, under their own keys.", metavar="IN"
        ),
    ],
    output: Annotated[Path, option("-o --output FILE", "Weight file to write.")],
) -> None:
    """Convert the authors' weights to a file of ours."""
    from pdflow.weights import read_tensors, save_model
    from pdflow.weights.authors import import_authors_weights

    model = import_authors_weights(read_tensors(source)[0])
    save_model(output, model, {"imported": source.name, "by": "the authors of PD-Flow (MIT)"})
    parameters = sum(p.numel() for p in model.parameters())
    typer.echo(f"{output}: {model.config.filter} network with {parameters:,} parameters")
