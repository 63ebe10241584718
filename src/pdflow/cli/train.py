"""`pdflow train`: weights from a folder of clean clouds and a recipe."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

NAME = "train"


def run(
    data: Annotated[Path, typer.Option("--data", help="Folder of clean clouds.", metavar="DIR")],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="Folder for checkpoint and weights.", metavar="DIR"),
    ],
    recipe: Annotated[
        str, typer.Option("--recipe", help="Shipped recipe or TOML file.", metavar="RECIPE")
    ] = "pdflow",
    minutes: Annotated[
        float,
        typer.Option("--minutes", help="Stop and save after this time.", min=0.0, metavar="T"),
    ] = float("inf"),
    device: Annotated[
        str | None,
        typer.Option("--device", help="cpu or cuda; default: the best there is.", metavar="DEVICE"),
    ] = None,
) -> None:
    """Train a network; called again with the same folder, it goes on where it stopped."""
    import torch

    from pdflow.inference import best_device
    from pdflow.train.data import PatchPool
    from pdflow.train.loop import Trainer
    from pdflow.train.recipe import load_recipe
    from pdflow.train.shapes import read_shapes
    from pdflow.weights import save_model

    chosen = load_recipe(recipe)
    place = device or best_device()
    shapes, _ = read_shapes(data).split(chosen.data.holdout)
    generator = torch.Generator(place).manual_seed(chosen.optim.seed)
    pool = PatchPool.cut(
        shapes.all_clouds(), chosen.data.seeds, chosen.model.patch_points, generator
    )
    trainer = Trainer(chosen, pool, place)
    output.mkdir(parents=True, exist_ok=True)
    checkpoint = output / "checkpoint.safetensors"
    if checkpoint.exists():
        trainer.resume(checkpoint)
        typer.echo(f"going on at step {trainer.step_count}")
    try:
        trainer.fit(minutes, lambda line: typer.echo(_describe(line)))
    finally:
        trainer.save(checkpoint)
        provenance = {
            "recipe": chosen.as_dict(),
            "steps": trainer.step_count,
            "data_sha256": shapes.digest,
        }
        save_model(output / "model.safetensors", trainer.averaged(), provenance)
    typer.echo(f"{output / 'model.safetensors'}: {trainer.step_count} steps")


def _describe(line: dict[str, float]) -> str:
    return (
        f"step {line['step']:>7.0f}  loss {line['loss']:.5f}  rec {line['rec']:.5f}  "
        f"nll {line['prior']:.1f}  {line['patches_per_second']:.0f} patches/s  "
        f"skipped {line['skipped']:.0f}"
    )
