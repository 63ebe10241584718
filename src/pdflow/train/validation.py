"""Validation: fixed noisy patches of shapes that training never sees."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pdflow.model import PDFlow
from pdflow.train.losses import sq_nearest_distances
from pdflow.train.patches import patch_weights
from pdflow.train.recipe import Recipe
from pdflow.train.shapes import Source


class Validation:
    """Patches of held-out shapes with a few noise levels, the same in every run.

    They are drawn on the CPU, so that they are the same for every device.
    """

    def __init__(self, held: Source, recipe: Recipe, device: str) -> None:
        config, inference = recipe.validation, recipe.inference
        self.every = config.every
        self.sharpness = recipe.loss.sharpness
        generator = torch.Generator().manual_seed(config.seed)
        seeds = -(-config.patches // len(held))
        pool = held.pool(seeds, recipe.model.patch_points, generator)
        self.patches = {
            level: pool.sample(
                config.patches,
                (level, level),
                radius=inference.fixed_radius,
                centred=inference.centred,
                generator=generator,
            ).map(lambda tensor: tensor.to(device))
            for level in config.levels
        }

    def is_due(self, step: int, last: bool) -> bool:
        """Whether to validate after this step: every `every` steps, and at the end."""
        return self.every > 0 and (step % self.every == 0 or last)

    @torch.no_grad()
    def measure(self, model: PDFlow) -> dict[str, float]:
        """Error after one pass, relative to that of the noisy patches.

        error@LEVEL    of squared distances to the clean point of the same row
        chamfer@LEVEL  of squared distances to the nearest point, in both directions
        validation     mean of the errors; the plateau schedule uses it
        """
        errors, chamfers = {}, {}
        for level, batch in self.patches.items():
            noisy, clean = batch.noisy, batch.clean
            denoised = model.denoise_patches(noisy, sigma=batch.sigma)
            weights = patch_weights(noisy, noisy[:, :1], self.sharpness)
            left, given = (
                (points - clean).square().sum(-1).mul(weights).sum() for points in (denoised, noisy)
            )
            errors[f"error@{level:g}"] = float(left / given)
            left, given = (_chamfer(points, clean) for points in (denoised, noisy))
            chamfers[f"chamfer@{level:g}"] = float(left / given)
        return {"validation": sum(errors.values()) / len(errors), **errors, **chamfers}

    @torch.no_grad()
    def draw(self, model: PDFlow, path: Path) -> None:
        """A picture of the first patch of the middle level: noisy, denoised, clean."""
        from pdflow.render import Panel, render_panels

        batch = list(self.patches.values())[len(self.patches) // 2]
        clean = batch.clean[:1]
        denoised = model.denoise_patches(batch.noisy[:1], sigma=batch.sigma[:1])
        clouds = (batch.noisy[:1], denoised, clean)
        panels = [
            Panel(points[0].double().cpu().numpy(), _distances(points, clean)) for points in clouds
        ]
        render_panels(panels, path, size=(400, 400))


def _chamfer(points: Tensor, clean: Tensor) -> Tensor:
    there, back = sq_nearest_distances(points, clean)
    return there.mean() + back.mean()


def _distances(points: Tensor, clean: Tensor) -> NDArray[np.float64]:
    there, _ = sq_nearest_distances(points, clean)
    result: NDArray[np.float64] = there[0].double().sqrt().cpu().numpy()
    return result
