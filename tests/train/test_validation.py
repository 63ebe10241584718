from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from pdflow.model import PDFlow
from pdflow.train.recipe import Recipe
from pdflow.train.shapes import Shapes
from pdflow.train.validation import Validation

MakeRecipe = Callable[..., Recipe]


class Stub(PDFlow):
    """A network that moves every point by `share` of the way to its target."""

    def __init__(self, recipe: Recipe, target: torch.Tensor, share: float) -> None:
        super().__init__(recipe.model)
        self.target, self.share = target, share

    def denoise_patches(
        self,
        points: torch.Tensor,
        eps: torch.Tensor | None = None,
        sigma: torch.Tensor | None = None,
    ) -> torch.Tensor:
        return points + self.share * (self.target[: len(points)] - points)


def test_errors_say_what_is_left_of_the_noise(
    tiny: MakeRecipe, sphere: np.ndarray, tmp_path: Path
) -> None:
    recipe = tiny()
    validation = Validation(Shapes({"a": [sphere, 0.5 * sphere]}), recipe, "cpu")
    clean = validation.patches[0.05].clean
    for share, left in ((0.0, 1.0), (0.5, 0.25), (1.0, 0.0)):
        figures = validation.measure(Stub(recipe, clean, share))
        assert figures["error@0.05"] == pytest.approx(left, abs=1e-6)
        assert (figures["chamfer@0.05"] < 1) == (share > 0)
    levels = [figures["error@0.03"], figures["error@0.05"]]
    assert figures["validation"] == pytest.approx(np.mean(levels))
    validation.draw(Stub(recipe, clean, 0.5), tmp_path / "patch.png")
    assert (tmp_path / "patch.png").read_bytes().startswith(b"\x89PNG")


def test_patches_are_the_same_in_every_run(tiny: MakeRecipe, sphere: np.ndarray) -> None:
    first = Validation(Shapes({"a": [sphere]}), tiny(), "cpu")
    torch.rand(3)
    second = Validation(Shapes({"a": [sphere]}), tiny(seed=7), "cpu")
    for level, batch in first.patches.items():
        assert torch.equal(batch.noisy, second.patches[level].noisy)
        assert len(batch.noisy) == 4
