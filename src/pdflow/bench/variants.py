"""Networks of the paper's ablations, trained briefly and kept in the results folder.

Every variant starts from the recipe of the paper's network and gets the same number of patches.
These are fewer than the paper's: compare variants with each other. They differ from the recipe in
warm-up and weight averaging, which are those of a short run, and no shape is held out.

Small networks, which a CPU can train, also match point i of the output with point i of the clean
patch instead of by an assignment: correct because noise was added to clean points, and free.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pdflow.bench.methods import short_digest
from pdflow.errors import PdflowError
from pdflow.model import PDFlow
from pdflow.train.checkpoint import resume, save_checkpoint
from pdflow.train.data import PatchPool
from pdflow.train.loop import Trainer
from pdflow.train.recipe import Recipe, load_recipe
from pdflow.train.run import SAVE_EVERY, stopping_on_signals
from pdflow.weights import load_model, save_model


@dataclass(frozen=True)
class Size:
    """Size of the networks of a table, of their patches and of their training.

    network    changed settings of the network, inference: of its use
    edges      divisor of K in all EdgeUnits
    loss       changed settings of the loss, whose terms are sums over points
    batch      patches of a step, and `steps`, how many there are by default
    regions    regions cut from every training cloud
    precision  of the trainer
    cut        what patches are cut from: "noisy" or "clean" clouds
    """

    network: dict[str, Any]
    inference: dict[str, Any]
    edges: int
    loss: dict[str, Any]
    batch: int
    steps: int
    regions: int
    precision: str
    cut: str


SIZES = {
    # 300,800 patches, as many a step as keep a GPU busy.
    "paper": Size({}, {}, 1, {}, 32, 9400, 1024, "bf16", "noisy"),
    "small": Size(
        {"hidden": 24, "patch_points": 128},
        {"centred": True, "patch_radius": (2.0, 2.0)},
        4,
        {"rec": 0.128, "prior": 8e-6, "matching": "paired"},
        8,
        500,
        64,
        "ieee",
        "clean",
    ),
}
"""The paper's networks, and narrower ones that a CPU can train.

The small ones get patches centred on the origin and of one radius: they learn in hundreds of
steps what takes many thousands in the paper's frame. Their patches are cut from clean clouds, as
those of the stored rows were.
"""


@dataclass(frozen=True)
class Training:
    """How every variant is trained.

    steps  None: as many as the size has by default
    size   a key of SIZES
    seed   of the training
    """

    steps: int | None = None
    size: str = "small"
    seed: int = 0

    def __post_init__(self) -> None:
        if self.size not in SIZES:
            raise PdflowError(f"There is no size {self.size!r}: choose {' or '.join(SIZES)}.")

    @property
    def label(self) -> str:
        """What is added to the names of rows.

        >>> Training(200).label, Training(size="paper", seed=1).label
        ('(small, 200 steps)', '(paper, 9400 steps, seed 1)')
        """
        steps = self.steps or SIZES[self.size].steps
        return f"({self.size}, {steps} steps{f', seed {self.seed}' if self.seed else ''})"


@dataclass(frozen=True)
class Variant:
    """A network to be compared: its row in the table, and its recipe.

    drawn  whether it decodes from eps that are drawn, as in the paper, and not from their mean
    """

    name: str
    recipe: Recipe
    drawn: bool = False

    @property
    def digest(self) -> str:
        """Short hash of everything that determines the trained weights except the data."""
        return short_digest(self.recipe.as_dict())

    def path(self, folder: Path) -> Path:
        """File of its weights; identical variants of several tables share it."""
        return folder / "models" / f"{self.digest}.safetensors"


def variant(
    name: str,
    training: Training,
    recipe: str = "paper-lcc",
    *,
    noise: str = "gaussian",
    with_loss: bool = True,
    **model: Any,
) -> Variant:
    """A variant of a shipped recipe.

    noise      kind of noise that it is trained on
    with_loss  whether to use the filter's own loss
    model      changed settings of the network
    """
    base, size = load_recipe(recipe), SIZES[training.size]
    steps = training.steps or size.steps
    optim = replace(
        base.optim,
        batch=size.batch,
        steps=steps,
        seed=training.seed,
        precision=size.precision,
        warmup=max(1, steps // 20),
        ema=max(0.0, 1 - 20 / steps),
    )
    loss = replace(base.loss, denoise=base.loss.denoise if with_loss else 0.0, **size.loss)
    changes: dict[str, Any] = {
        "edge_neighbours": tuple(k // size.edges for k in base.model.edge_neighbours),
        **size.network,
    }
    network = replace(base.model, **changes, **model)
    # One inference config for all: the tables fix passes and partitions.
    inference = replace(load_recipe("paper-lcc").inference, **size.inference)
    # Always the same name, because only settings may matter: equal variants are trained once.
    data = replace(base.data, noise=(noise,), cut=size.cut, seeds=size.regions, holdout=())
    return Variant(name, Recipe("ablation", network, inference, data, loss, optim))


def train_variants(
    variants: Sequence[Variant],
    read_clouds: Callable[[], Sequence[NDArray[np.float64]]],
    folder: Path,
    device: str,
    done: Callable[[Variant], None],
) -> None:
    """Train the variants that are not in the folder yet; `done` is called after each variant.

    read_clouds  gives the clean training clouds (M, 3), each in its unit sphere
    """
    pool: PatchPool | None = None
    for chosen in variants:
        if not chosen.path(folder).exists():
            if pool is None:
                pool = _pool(read_clouds(), chosen.recipe, device)
            _train(chosen, pool, folder, device)
        done(chosen)


def trained(chosen: Variant, folder: Path, device: str) -> PDFlow:
    """The network of a trained variant."""
    return load_model(chosen.path(folder), device)


def _pool(clouds: Sequence[NDArray[np.float64]], recipe: Recipe, device: str) -> PatchPool:
    generator = torch.Generator(device).manual_seed(0)
    return PatchPool.cut(clouds, recipe.data.seeds, recipe.model.patch_points, generator)


def _train(chosen: Variant, pool: PatchPool, folder: Path, device: str) -> None:
    """Train a variant; a run that was stopped goes on from its checkpoint."""
    trainer = Trainer(chosen.recipe, pool, device)
    path = chosen.path(folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    checkpoint = path.with_suffix(".checkpoint")
    if checkpoint.exists():
        resume(trainer, checkpoint)
    lines: list[dict[str, Any]] = []
    saved = time.monotonic()

    def note(line: dict[str, Any]) -> None:
        nonlocal saved
        lines.append(line)
        if time.monotonic() - saved > SAVE_EVERY:
            save_checkpoint(trainer, checkpoint)
            saved = time.monotonic()

    with stopping_on_signals(trainer):
        trainer.fit(inf, log=note)
    if trainer.stop:
        save_checkpoint(trainer, checkpoint)
        raise KeyboardInterrupt
    patches = chosen.recipe.optim.steps * chosen.recipe.optim.batch
    provenance = {
        "recipe": chosen.recipe.as_dict(),
        "patches": patches,
        "log": lines,
    }
    save_model(path, trainer.averaged(), provenance)
    checkpoint.unlink(missing_ok=True)
