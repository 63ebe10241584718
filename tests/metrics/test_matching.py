"""EMD: closed forms, all permutations, and its limits."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from numpy.typing import NDArray

from pdflow.errors import PdflowError
from pdflow.metrics import chamfer, earth_movers, sq_earth_movers


def test_shifted_lattice_in_another_order(lattice: NDArray[np.float64]) -> None:
    shifted = np.random.default_rng(0).permutation(lattice + np.array([0.2, 0, 0]))
    assert earth_movers(shifted, lattice) == pytest.approx(0.2 / np.sqrt(12))
    assert sq_earth_movers(shifted, lattice) == pytest.approx(0.04 / 12)


def test_best_of_all_permutations() -> None:
    rng = np.random.default_rng(5)
    pred, clean = rng.standard_normal((2, 6, 3))
    center = (clean.min(0) + clean.max(0)) / 2
    radius = np.linalg.norm(clean - center, axis=1).max()
    lengths = [
        np.linalg.norm(pred[list(order)] - clean, axis=1) / radius
        for order in permutations(range(6))
    ]
    assert earth_movers(pred, clean) == pytest.approx(min(d.mean() for d in lengths))
    assert sq_earth_movers(pred, clean) == pytest.approx(min((d**2).mean() for d in lengths))


def test_a_crowd_costs_emd_but_not_chamfer(lattice: NDArray[np.float64]) -> None:
    crowded = lattice.copy()
    crowded[62] = crowded[61]
    assert earth_movers(crowded, lattice) == pytest.approx(1 / np.sqrt(12) / 125)
    assert chamfer(crowded, lattice) == pytest.approx(1 / np.sqrt(12) / 125)
    crowded[62:64] = crowded[61]  # the second must go two steps, but is near its neighbour
    assert earth_movers(crowded, lattice) > chamfer(crowded, lattice)


def test_limits_are_one_sentence(lattice: NDArray[np.float64]) -> None:
    with pytest.raises(PdflowError, match="124 points and the clean cloud 125"):
        earth_movers(lattice[1:], lattice)
    many = np.random.default_rng(0).standard_normal((4097, 3))
    with pytest.raises(PdflowError, match="limited to 4096 points"):
        earth_movers(many, many)
