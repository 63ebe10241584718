from __future__ import annotations

import numpy as np
import pytest
import torch

from pdflow.backends.draws import EpsDraws
from pdflow.kernels.normal import normal


def drawn(draws: EpsDraws, patch: int, points: int = 40, dims: int = 5) -> torch.Tensor:
    eps = torch.full((points, dims), torch.nan)
    draws.fill(patch, eps)
    return eps


def test_eps_is_drawn_as_it_always_was() -> None:
    """A change of these figures changes the result of every run that was ever made."""
    expected = torch.tensor([-0.1104959, 1.3340116, -0.9937626])
    torch.testing.assert_close(drawn(EpsDraws(3), 5)[0, :3], expected)


def test_names_stand_for_patches() -> None:
    names = np.array([7, 0, 2**40, -1])
    named = EpsDraws(3, names)
    assert torch.equal(drawn(named, 0), drawn(EpsDraws(3), 7))
    assert torch.equal(drawn(named, 2), drawn(EpsDraws(3), 2**40))
    assert len(np.unique(named.keys(0, 4))) == 4
    assert np.array_equal(named.keys(1, 3), EpsDraws(3, names[1:]).keys(0, 2))


def test_a_number_depends_on_its_place_and_not_on_the_size_of_the_patch() -> None:
    whole, part = drawn(EpsDraws(0), 2, 40), drawn(EpsDraws(0), 2, 13)
    assert torch.equal(whole[:13], part)


@pytest.mark.parametrize("points", [1, 40, 1024])
def test_a_batch_is_drawn_like_its_patches(points: int) -> None:
    draws = EpsDraws(1)
    batch = normal(torch.from_numpy(draws.keys(3, 6).view(np.int64)), (points, 5))
    for patch, eps in enumerate(batch, 3):
        assert torch.equal(eps, drawn(draws, patch, points))


def test_no_two_keys_of_any_seeds_are_equal() -> None:
    seeds = [0, 1, 2, 5, 5 + (7 << 32), 2**63, -1]
    keys = np.concatenate([EpsDraws(seed).keys(0, 300) for seed in seeds])
    assert keys.dtype == np.uint64
    assert len(np.unique(keys)) == len(keys)
    assert EpsDraws(0).keys(4, 4).shape == (0,)


def test_patches_and_seeds_are_not_correlated() -> None:
    eps = [drawn(EpsDraws(seed), patch, 1024, 61).ravel() for seed in (0, 1) for patch in range(5)]
    correlation = torch.corrcoef(torch.stack(eps)) - torch.eye(10)
    assert correlation.abs().max() < 4 / np.sqrt(1024 * 61)
