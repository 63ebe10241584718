"""Chamfer and Hausdorff distance: closed forms, scipy, symmetry."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.spatial import cKDTree
from scipy.spatial.distance import directed_hausdorff

from pdflow.errors import PdflowError
from pdflow.metrics import chamfer, hausdorff, sq_chamfer, sq_hausdorff

RADIUS = np.sqrt(12)  # of the lattice


def test_shifted_lattice(lattice: NDArray[np.float64]) -> None:
    shifted = lattice + np.array([0.25, 0, 0])
    step = 0.25 / RADIUS
    assert sq_chamfer(shifted, lattice) == pytest.approx(2 * step**2, rel=1e-12)
    assert chamfer(shifted, lattice) == pytest.approx(2 * step, rel=1e-12)
    assert sq_hausdorff(shifted, lattice) == pytest.approx(step**2, rel=1e-12)
    assert hausdorff(shifted, lattice) == pytest.approx(step, rel=1e-12)


def test_both_directions_count(lattice: NDArray[np.float64]) -> None:
    """One outlier among 126, and one missing point: each is seen from its own side."""
    outlier = np.concatenate([lattice, [[4.0, 4.0, 7.0]]])
    assert sq_hausdorff(outlier, lattice) == pytest.approx(9 / 12)
    assert sq_chamfer(outlier, lattice) == pytest.approx(9 / 12 / 126)
    missing = lattice[1:]
    assert sq_hausdorff(missing, lattice) == pytest.approx(1 / 12)
    assert sq_chamfer(missing, lattice) == pytest.approx(1 / 12 / 125)


def test_the_frame_is_that_of_the_clean_cloud(lattice: NDArray[np.float64]) -> None:
    assert hausdorff(3 * lattice, lattice) == pytest.approx(8 * np.sqrt(3) / RADIUS)


def test_agrees_with_scipy(noisy_ball: NDArray[np.float64]) -> None:
    clean = noisy_ball / np.linalg.norm(noisy_ball, axis=1, keepdims=True)
    center = (clean.min(0) + clean.max(0)) / 2
    radius = np.linalg.norm(clean - center, axis=1).max()
    pred = noisy_ball[:1000]
    there, back = cKDTree(clean).query(pred)[0] / radius, cKDTree(pred).query(clean)[0] / radius
    assert chamfer(pred, clean) == pytest.approx(there.mean() + back.mean(), rel=1e-12)
    assert sq_chamfer(pred, clean) == pytest.approx((there**2).mean() + (back**2).mean())
    largest = max(directed_hausdorff(pred, clean)[0], directed_hausdorff(clean, pred)[0])
    assert hausdorff(pred, clean) == pytest.approx(largest / radius, rel=1e-12)


def test_symmetric_where_both_have_the_same_frame(lattice: NDArray[np.float64]) -> None:
    inner = ((lattice > 0) & (lattice < 4)).all(1)  # the hull stays, and so does the unit sphere
    moved = lattice + inner[:, None] * np.array([0.1, 0.2, -0.1])
    for metric in (sq_chamfer, chamfer, sq_hausdorff, hausdorff):
        assert metric(moved, lattice) == pytest.approx(metric(lattice, moved), rel=1e-12)
        assert metric(lattice, lattice) == 0


def test_far_from_the_origin_nothing_is_lost(noisy_ball: NDArray[np.float64]) -> None:
    clean = noisy_ball / np.linalg.norm(noisy_ball, axis=1, keepdims=True)
    far = np.array([5e5, 5.4e6, 0.0])
    near = sq_chamfer(noisy_ball, clean)
    assert sq_chamfer(noisy_ball + far, clean + far) == pytest.approx(near, rel=1e-6)


def test_bad_input_is_one_sentence(lattice: NDArray[np.float64]) -> None:
    with pytest.raises(PdflowError, match="The prediction is empty"):
        sq_chamfer(np.empty((0, 3)), lattice)
    with pytest.raises(PdflowError, match="The clean cloud is empty"):
        sq_hausdorff(lattice, np.empty((0, 3)))
    with pytest.raises(PdflowError, match=r"shape \(125, 2\)"):
        sq_chamfer(lattice[:, :2], lattice)
    with pytest.raises(PdflowError, match="not an array of numbers"):
        sq_chamfer([[1, 2, 3], [4, 5]], lattice)
    with pytest.raises(PdflowError, match="no extent"):
        sq_chamfer(lattice, np.ones((4, 3)))
    broken = lattice.copy()
    broken[7, 1] = np.nan
    with pytest.raises(PdflowError, match="The prediction: point 7 is NaN"):
        sq_chamfer(broken, lattice)
