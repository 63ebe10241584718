"""One frame and one weight of training patches."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pdflow.train.patches import cut_patches, patch_weights


@pytest.fixture
def surroundings() -> torch.Tensor:
    return torch.randn(3, 40, 3, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("radius", [None, 2.0])
@pytest.mark.parametrize("centred", [False, True])
def test_cuts_hold_the_nearest_points_in_their_frame(
    surroundings: torch.Tensor, radius: float | None, centred: bool
) -> None:
    seeds = surroundings[:, 5:6]
    cut = cut_patches(surroundings, seeds, 10, radius, centred)
    assert (cut.rows[:, 0] == 5).all()
    distances = (surroundings - seeds).norm(dim=2)
    expected = distances.sort(dim=1).values[:, :10]
    patches = cut.apply(surroundings)
    assert patches.shape == (3, 10, 3)
    from_seed = (patches - patches[:, :1]).norm(dim=2) / cut.scale[:, 0]
    assert torch.allclose(from_seed, expected, atol=1e-6)
    if radius is not None:
        assert torch.allclose((patches - patches[:, :1]).norm(dim=2)[:, -1], torch.tensor(radius))
    if centred:
        assert (patches[:, 0] == 0).all()
    elif radius is None:
        assert torch.equal(patches[:, 0], seeds[:, 0])


def test_weights_fall_with_the_distance_from_the_seed(surroundings: torch.Tensor) -> None:
    seeds = surroundings[:, 5:6]
    weights = patch_weights(surroundings, seeds, 2.0)
    sq_distances = ((surroundings - seeds) ** 2).sum(2).numpy()
    expected = np.exp(-2.0 * sq_distances / sq_distances.max(axis=1, keepdims=True))
    assert weights.numpy() == pytest.approx(expected, rel=1e-5)
    assert torch.equal(weights[:, 5], torch.ones(3))
    moved = patch_weights(surroundings + 1.0, seeds + 1.0, 2.0)
    assert torch.allclose(moved, weights, atol=1e-5)


def test_points_in_one_place_all_count_alike() -> None:
    points = torch.ones(1, 4, 3)
    assert torch.equal(patch_weights(points, points[:, :1], 2.0), torch.ones(1, 4))
