"""Train variants of our recipe briefly and alike, and compare them on the held-out shapes.

    python benchmarks/training/try_candidates.py DATA --init pdflow-base.safetensors [--steps 2500]
        [--only "NAME;NAME"] [-o FOLDER]

DATA is a folder that `pdflow train` reads. A variant changes one thing in `pdflow-base`. Variants
of losses and data continue from the weights given with --init, like the end of a training; variants
of the network start from random weights. All get the same number of steps with a rate that falls to
zero. Printed is the share of the noise that remains after one pass in held-out patches at 1, 2 and
3 %: by the distances to the clean rows (`error`) and to the nearest points (`chamfer`); 1 is the
input. Short trainings favour variants that learn fast. Weights and results are kept in FOLDER; a
variant with stored results is not trained again.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from pdflow.config import FlowConfig, InferenceConfig
from pdflow.device import best_device
from pdflow.provenance import describe_machine, source_version
from pdflow.train.checkpoint import provenance
from pdflow.train.folders import read_source
from pdflow.train.loop import Trainer
from pdflow.train.recipe import Recipe, load_recipe
from pdflow.train.shapes import Source
from pdflow.train.validation import Validation
from pdflow.weights import save_model

LEVELS = (0.01, 0.02, 0.03)
PAPER_GRAPH = {
    name: getattr(FlowConfig(), name)
    for name in ("edge_neighbours", "augment_dims", "condition", "augment_flow", "masked_dims")
}
LCC = {"filter": "lcc", "filter_init": "authors"}

GOING_ON: dict[str, dict[str, dict[str, Any]]] = {
    "pdflow-base goes on": {},
    "a tenth of the weight on pairs": {"loss": {"rec": 0.0001}},
    "pairs alone": {"loss": {"chamfer": 0.0, "rec": 0.001}},
    "chamfer alone": {"loss": {"rec": 0.0}},
    "matched by EMD, not by row": {"loss": {"matching": "auction"}},
    "EMD alone": {"loss": {"matching": "auction", "chamfer": 0.0, "rec": 0.001}},
    "no likelihood": {"loss": {"prior": 0.0}},
    "likelihood x 10": {"loss": {"prior": 1e-5}},
    "likelihood x 100": {"loss": {"prior": 1e-4}},
    "LCC without its loss": {"model": LCC},
    "LCC with its loss": {"model": LCC, "loss": {"denoise": 0.01}},
    "LCC with its loss, shared eps": {"model": LCC, "loss": {"denoise": 0.01, "shared_eps": True}},
    "patches cut from the clean cloud": {"data": {"cut": "clean"}},
    "no iterated outputs": {"data": {"iterate": 0.0}},
    "half of the batch iterated": {"data": {"iterate": 0.5}},
    "deformed patches": {"data": {"deform": 0.1}},
    "random scales": {"data": {"scales": (0.8, 1.2)}},
    "overlapping patches must agree": {"loss": {"consistency": 0.001}},
    "chamfer alone, deformed": {"loss": {"rec": 0.0}, "data": {"deform": 0.1}},
    "chamfer alone, bent by 0.1": {"loss": {"rec": 0.0}, "data": {"deform": 0.1, "bend": 0.1}},
    "chamfer alone, bent by 0.3": {"loss": {"rec": 0.0}, "data": {"deform": 0.1, "bend": 0.3}},
    "matched by EMD, deformed": {"loss": {"matching": "auction"}, "data": {"deform": 0.1}},
    "batch 64": {"optim": {"batch": 64}},
}
FRESH: dict[str, dict[str, dict[str, Any]]] = {
    "pdflow-base": {},
    "affine couplings": {"model": {"coupling": "affine"}},
    "graph in every block, as the paper": {"model": PAPER_GRAPH},
    "patches neither centred nor of one radius": {
        "inference": {"centred": False, "patch_radius": InferenceConfig().patch_radius}
    },
    "EdgeUnits of 128 channels": {"model": {"condition_hidden": 128}},
    "eight EdgeUnits": {"model": {"condition_layers": 8}},
    "four EdgeUnits": {"model": {"condition_layers": 4}},
    "no iterated outputs from the start": {"data": {"iterate": 0.0}},
    "noise conditioning, no iterated outputs": {
        "model": {"noise_conditioning": True},
        "data": {"iterate": 0.0},
    },
    "16 neighbours": {"model": {"condition_neighbours": 16}},
}


def variant(changes: dict[str, dict[str, Any]], steps: int) -> Recipe:
    """`pdflow-base` with these changes, a falling rate, and the same validation for all."""
    recipe = load_recipe("pdflow-base")
    recipe = replace(
        recipe,
        optim=replace(recipe.optim, schedule="cosine", steps=steps),
        validation=replace(recipe.validation, every=0, patches=240, levels=LEVELS),
    )
    changed = {name: replace(getattr(recipe, name), **new) for name, new in changes.items()}
    return replace(recipe, **changed)


def measure(
    recipe: Recipe, shapes: Source, device: str, init: Path | None, weights: Path
) -> dict[str, Any]:
    """Train a recipe; steps, patches, parameters and the remaining noise on held-out patches."""
    kept, held = shapes.split(recipe.data.holdout)
    generator = torch.Generator(device).manual_seed(recipe.optim.seed)
    pool = kept.pool(recipe.data.seeds, recipe.model.patch_points, generator)
    trainer = Trainer(recipe, pool, device, init=init)
    trainer.fit()
    save_model(weights, trainer.averaged(), provenance(trainer, kept.digest))
    return {
        "steps": trainer.step_count,
        "patches": trainer.step_count * recipe.optim.batch,
        "seconds": round(trainer.seconds, 1),
        "skipped": int(trainer.skipped),
        "parameters": sum(p.numel() for p in trainer.model.parameters()),
        **Validation(held, recipe, device).measure(trainer.averaged()),
    }


def line(name: str, result: dict[str, Any]) -> str:
    """A row of the Markdown table."""
    errors, chamfers = (
        " / ".join(f"{result[f'{kind}@{level:g}']:.3f}" for level in LEVELS)
        for kind in ("error", "chamfer")
    )
    return f"| {name} | {result['patches'] / 1e3:.0f}K | {errors} | {chamfers} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--init", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=2500)
    parser.add_argument("--only", help="names of variants, separated by semicolons")
    parser.add_argument("-o", "--output", type=Path, default=Path("candidates"))
    given = parser.parse_args()
    device = best_device()
    shapes = read_source(given.data, load_recipe("pdflow-base").data.resolutions, Path("cache"))
    given.output.mkdir(parents=True, exist_ok=True)
    kept = given.output / "candidates.jsonl"
    results = (
        {each["variant"]: each for each in map(json.loads, kept.open())} if kept.exists() else {}
    )
    names = given.only.split(";") if given.only else [*GOING_ON, *FRESH]
    print(f"{describe_machine()}, commit {source_version()}, {given.steps} steps each\n")
    print(
        "| variant | patches | error at 1 / 2 / 3 % | chamfer at 1 / 2 / 3 % |\n|---|---|---|---|"
    )
    for name in names:
        if name not in results:
            recipe = variant((GOING_ON | FRESH)[name], given.steps)
            weights = given.output / f"{name.replace(' ', '-')}.safetensors"
            init = given.init if name in GOING_ON else None
            result = measure(recipe, shapes, device, init, weights)
            results[name] = {"variant": name, "commit": source_version()} | result
            with kept.open("a") as file:
                file.write(json.dumps(results[name]) + "\n")
        print(line(name, results[name]), flush=True)


if __name__ == "__main__":
    main()
