"""Train variants of our recipe alike, briefly, and compare them on the held-out shapes.

    python benchmarks/try_candidates.py DATA [--minutes 1] [--only NAME,NAME] [-o FILE.jsonl]

DATA is a folder that `pdflow train` reads. Every variant starts from random weights, gets the same
minutes with a rate that falls to zero, and changes one thing of `pdflow-base`. What is printed is
what one pass leaves of the noise in held-out patches at 1, 2 and 3 %: of distances to the rows
(`error`) and to the nearest points (`chamfer`); 1 is doing nothing. Short trainings favour what
learns fast. Results are kept line by line; a variant that is there is not trained again.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from pdflow.bench.machine import commit, describe_machine
from pdflow.model import FlowConfig
from pdflow.train.folders import read_source
from pdflow.train.loop import Trainer
from pdflow.train.recipe import Recipe, load_recipe
from pdflow.train.shapes import Source
from pdflow.train.validation import Validation

LEVELS = (0.01, 0.02, 0.03)
PAPER_GRAPH = {
    name: getattr(FlowConfig(), name)
    for name in ("edge_neighbours", "augment_dims", "condition", "augment_flow", "masked_dims")
}
LCC = {"filter": "lcc", "filter_init": "authors"}

VARIANTS: dict[str, dict[str, dict[str, Any]]] = {
    "pdflow-base": {},
    "a tenth of the weight on pairs": {"loss": {"rec": 0.0001}},
    "pairs alone": {"loss": {"chamfer": 0.0, "rec": 0.001}},
    "chamfer alone": {"loss": {"rec": 0.0}},
    "matched by EMD, not by row": {"loss": {"matching": "auction"}},
    "EMD alone": {"loss": {"matching": "auction", "chamfer": 0.0, "rec": 0.001}},
    "no likelihood": {"loss": {"prior": 0.0}},
    "likelihood x 10": {"loss": {"prior": 1e-5}},
    "likelihood x 100": {"loss": {"prior": 1e-4}},
    "affine couplings": {"model": {"coupling": "affine"}},
    "graph in every block, as the paper": {"model": PAPER_GRAPH},
    "LCC with its loss": {"model": LCC, "loss": {"denoise": 0.01}},
    "LCC with its loss, shared eps": {"model": LCC, "loss": {"denoise": 0.01, "shared_eps": True}},
    "patches neither centred nor of one radius": {
        "model": {"centred": False, "patch_radius": FlowConfig().patch_radius}
    },
    "patches cut from the clean cloud": {"data": {"cut": "clean"}},
    "EdgeUnits of 128 channels": {"model": {"condition_hidden": 128}},
    "eight EdgeUnits": {"model": {"condition_layers": 8}},
    "four EdgeUnits": {"model": {"condition_layers": 4}},
    "16 neighbours": {"model": {"condition_neighbours": 16}},
    "no iterated outputs": {"data": {"iterate": 0.0}},
    "deformed patches": {"data": {"deform": 0.1}},
    "random scales": {"data": {"scales": (0.8, 1.2)}},
    "batch 64": {"optim": {"batch": 64}},
}


def variant(changes: dict[str, dict[str, Any]]) -> Recipe:
    """`pdflow-base` with a falling rate, the same validation for all, and these changes."""
    recipe = load_recipe("pdflow-base")
    recipe = replace(
        recipe,
        optim=replace(recipe.optim, schedule="cosine", steps=10**6),
        validation=replace(recipe.validation, every=0, patches=240, levels=LEVELS),
    )
    parts = {name: replace(getattr(recipe, name), **new) for name, new in changes.items()}
    return replace(recipe, **parts)


def measure(recipe: Recipe, shapes: Source, minutes: float, device: str) -> dict[str, Any]:
    """Train a recipe; steps, patches, parameters and what is left on held-out patches."""
    kept, held = shapes.split(recipe.data.holdout)
    generator = torch.Generator(device).manual_seed(recipe.optim.seed)
    pool = kept.pool(recipe.data.seeds, recipe.model.patch_points, generator)
    trainer = Trainer(recipe, pool, device)
    trainer.fit(minutes, anneal=True)
    return {
        "steps": trainer.step_count,
        "patches": trainer.step_count * recipe.optim.batch,
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
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--only", help="names of variants with commas between")
    parser.add_argument("-o", "--output", type=Path, default=Path("candidates.jsonl"))
    given = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    shapes = read_source(given.data, load_recipe("pdflow-base").data.resolutions, Path("cache"))
    known = [json.loads(text) for text in given.output.open()] if given.output.exists() else []
    results = {each["variant"]: each for each in known if each["minutes"] == given.minutes}
    names = given.only.split(",") if given.only else list(VARIANTS)
    print(f"{describe_machine()}, commit {commit()}, {given.minutes:g} minutes each\n")
    print(
        "| variant | patches | error at 1 / 2 / 3 % | chamfer at 1 / 2 / 3 % |\n|---|---|---|---|"
    )
    for name in names:
        if name not in results:
            result = measure(variant(VARIANTS[name]), shapes, given.minutes, device)
            results[name] = {"variant": name, "minutes": given.minutes, "commit": commit()} | result
            with given.output.open("a") as file:
                file.write(json.dumps(results[name]) + "\n")
        print(line(name, results[name]), flush=True)


if __name__ == "__main__":
    main()
