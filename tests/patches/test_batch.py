from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch

from pdflow import patches
from pdflow.errors import PdflowError, ScaleWarning
from pdflow.model import PDFlow


def test_a_cloud_is_covered_and_can_be_put_together_again(model: PDFlow, plane: np.ndarray) -> None:
    far = 1000 * plane + [5e6, 4e5, 100]
    with warnings.catch_warnings():
        warnings.simplefilter("error", ScaleWarning)
        batch = patches.cut(model, far)
    assert set(batch.rows.ravel()) == set(range(1500))
    assert repr(batch) == f"PatchBatch: {len(batch)} patches of 1,024 points"
    radius = batch.points.norm(dim=-1).amax(1)
    assert torch.allclose(radius, torch.full_like(radius, model.inference.patch_radius[1]))
    assert np.abs(batch.stitch(batch.points) - far).max() < 1e-3


def test_patches_can_be_cut_around_rows(model: PDFlow, plane: np.ndarray) -> None:
    batch = patches.cut(model, plane, seeds=[7, 1200])
    assert batch.rows[:, 0].tolist() == [7, 1200]
    assert np.abs(batch.restore(batch.points) - plane[batch.rows]).max() < 1e-6
    part = batch[1:]
    assert len(part) == 1
    assert part.rows[0, 0] == 1200
    with pytest.raises(PdflowError, match=r"hold 1024 of 1500 points"):
        part.stitch(part.points)


@pytest.mark.parametrize("seeds", [[1500], [-1], [0.5], []])
def test_seeds_are_rows(model: PDFlow, plane: np.ndarray, seeds: list[Any]) -> None:
    with pytest.raises(PdflowError, match=r"^[^\n]+: give [^\n]+\.$"):
        patches.cut(model, plane, seeds=seeds)


def test_a_given_noise_replaces_the_estimate(model: PDFlow, plane: np.ndarray) -> None:
    one, two = (patches.cut(model, plane, seeds=[0], noise=noise).sigma for noise in (0.01, 0.02))
    assert one is not None
    assert two is not None
    assert torch.allclose(2 * one, two)
    estimated = patches.cut(model, plane, seeds=[0]).sigma
    assert estimated is not None
    assert float(estimated[0] / one[0]) == pytest.approx(1, rel=0.4)


def test_patches_of_the_wrong_size_give_a_warning(model: PDFlow, small: PDFlow) -> None:
    disk = np.random.default_rng(0).normal(size=(2, 1024, 3))
    disk /= np.linalg.norm(disk, axis=2).max(axis=1)[:, None, None]
    with pytest.warns(ScaleWarning, match=r"2 of 2 patches have a radius like 1, .* knows 4"):
        patches.given(model, disk, sigma=0.1)
    with pytest.warns(ScaleWarning, match=r"knows 0\.1 to 0\.6"):
        patches.given(small, 10 * disk[:, :64])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        patches.given(model, 4 * disk, sigma=0.1)
        patches.given(small, 0.3 * disk[:, :64] + 0.5)


def test_patches_of_ones_own_have_no_cloud(small: PDFlow) -> None:
    batch = patches.given(small, 0.3 * torch.rand(2, 64, 3))
    with pytest.raises(PdflowError, match=r"not cut from a cloud"):
        batch.restore(batch.points)


@pytest.mark.parametrize("points", [np.zeros((5, 3)), np.full((1, 64, 3), np.nan)])
def test_what_is_no_patch_is_refused(small: PDFlow, points: np.ndarray) -> None:
    with pytest.raises(PdflowError, match=r"^Patches [^\n]+\.$"):
        patches.given(small, points)
