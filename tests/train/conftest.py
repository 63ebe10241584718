"""A sphere, a pool of its patches, and a recipe small enough to train in seconds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from pdflow.train.data import PatchPool
from pdflow.train.recipe import Recipe, ValidationConfig, load_recipe

POINTS = 64


@pytest.fixture(scope="session")
def sphere() -> np.ndarray:
    """2000 points on the unit sphere."""
    points = np.random.default_rng(0).normal(size=(2000, 3))
    return points / np.linalg.norm(points, axis=1, keepdims=True)


@pytest.fixture(scope="session")
def pool(sphere: np.ndarray) -> PatchPool:
    """64 surroundings of patches of 64 points."""
    return PatchPool.cut([sphere], 64, POINTS, torch.Generator().manual_seed(0))


@pytest.fixture
def tiny() -> Callable[..., Recipe]:
    """The shipped recipe with a small network; arguments replace [optim] settings."""

    def make(steps: int = 6, *, filter: str = "fbm", iterate: float = 0.0, **optim: Any) -> Recipe:
        recipe = load_recipe("pdflow-fast")
        model = replace(
            recipe.model,
            edge_neighbours=(0, 0),
            augment_dims=13,
            masked_dims=8,
            hidden=16,
            filter=filter,
            condition_neighbours=16,
            condition_hidden=32,
            condition_layers=2,
            condition_features=32,
            patch_points=POINTS,
            noise_conditioning=False,
        )
        settings = {"batch": 8, "warmup": 20, "ema": 0.9, "lr": 3e-3, **optim}
        settings = {"steps": steps, "schedule": "cosine", "precision": "ieee", **settings}
        return Recipe(
            "tiny",
            model,
            recipe.inference,
            replace(
                recipe.data,
                levels=(0.05, 0.05),
                conditioning_spread=0.0,
                iterate=iterate,
                holdout=(),
                seeds=64,
            ),
            replace(recipe.loss, rec=1 / POINTS, chamfer=0.5 / POINTS, matching="paired"),
            replace(recipe.optim, **settings),
            ValidationConfig(every=3, patches=4, levels=(0.03, 0.05)),
        )

    return make
