"""Networks of the paper's ablations, trained briefly and kept in the results folder.

Every variant starts from the recipe of the paper's network and gets the same number of patches.
These are too few for a good network: compare variants with each other, not with the paper. All of
them differ from the paper's recipe in this:

- point i of the output is matched with point i of the clean patch instead of by an assignment,
  which is correct because noise was added to clean points, and costs nothing;
- the matrix of LCC and the mask of LBM start as in the authors' code: with W = identity an
  invertible network returns its input, and a short training hardly leaves that point;
- warm-up, decay of the rate and weight averaging are those of a short run;
- patches are cut from clean clouds and then noised, as the authors did.
"""

from __future__ import annotations

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
from pdflow.train.data import PatchPool
from pdflow.train.loop import Trainer
from pdflow.train.recipe import Recipe, load_recipe
from pdflow.weights import load_model, save_model

BATCH = 8
SEEDS = 64
"""Number of regions cut from every training cloud."""


@dataclass(frozen=True)
class Size:
    """Size of the networks of a table, and of their patches.

    network  changed settings of the network, inference: of its use
    edges    divisor of K in all EdgeUnits
    rec      weight of the reconstruction loss, a sum over points
    prior    weight of the likelihood, a sum over points
    """

    network: dict[str, Any]
    inference: dict[str, Any]
    edges: int
    rec: float
    prior: float


SIZES = {
    "paper": Size({}, {}, 1, 0.8, 1e-6),
    "small": Size(
        {"hidden": 24, "patch_points": 128},
        {"centred": True, "patch_radius": (2.0, 2.0)},
        4,
        0.128,
        8e-6,
    ),
}
"""The paper's networks, and narrower ones that a CPU can train.

The small ones get patches centred on the origin and of one radius: they learn in hundreds of steps
what takes many thousands in the paper's frame.
"""


@dataclass(frozen=True)
class Training:
    """How every variant is trained: `steps` of BATCH patches, networks of a `size` of SIZES."""

    steps: int
    size: str = "small"

    def __post_init__(self) -> None:
        if self.size not in SIZES:
            raise PdflowError(f"There is no size {self.size!r}: choose {' or '.join(SIZES)}.")


@dataclass(frozen=True)
class Variant:
    """A network to be compared: its row in the table, and its recipe."""

    name: str
    recipe: Recipe

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
    base, steps, size = load_recipe(recipe), training.steps, SIZES[training.size]
    optim = replace(
        base.optim,
        batch=BATCH,
        steps=steps,
        warmup=max(1, steps // 20),
        schedule="cosine",
        ema=max(0.0, 1 - 20 / steps),
    )
    loss = replace(
        base.loss,
        rec=size.rec,
        prior=size.prior,
        denoise=base.loss.denoise if with_loss else 0.0,
        matching="paired",
    )
    changes: dict[str, Any] = {
        "filter_init": "authors",
        "edge_neighbours": tuple(k // size.edges for k in base.model.edge_neighbours),
        **size.network,
    }
    network = replace(base.model, **changes, **model)
    inference = replace(base.inference, **size.inference)
    # Always the same name, because only settings may matter: equal variants are trained once.
    data = replace(base.data, noise=(noise,), cut="clean", seeds=SEEDS)
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
                pool = _pool(read_clouds(), chosen.recipe.model.patch_points, device)
            _train(chosen, pool, folder, device)
        done(chosen)


def trained(chosen: Variant, folder: Path, device: str) -> PDFlow:
    """The network of a trained variant."""
    return load_model(chosen.path(folder), device)


def _pool(clouds: Sequence[NDArray[np.float64]], patch_points: int, device: str) -> PatchPool:
    generator = torch.Generator(device).manual_seed(0)
    return PatchPool.cut(clouds, SEEDS, patch_points, generator)


def _train(chosen: Variant, pool: PatchPool, folder: Path, device: str) -> None:
    trainer = Trainer(chosen.recipe, pool, device)
    lines: list[dict[str, Any]] = []
    trainer.fit(inf, log=lines.append)
    path = chosen.path(folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    patches = chosen.recipe.optim.steps * chosen.recipe.optim.batch
    provenance = {
        "recipe": chosen.recipe.as_dict(),
        "patches": patches,
        "log": lines,
    }
    save_model(path, trainer.averaged(), provenance)
