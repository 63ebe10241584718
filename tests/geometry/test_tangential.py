"""Tangential motion is kept where noise explains it, and taken back elsewhere."""

from __future__ import annotations

import numpy as np
import pytest

from pdflow.geometry.neighbors import NeighborSearch
from pdflow.geometry.tangential import limit_tangential_motion

RNG_SEED = 0


def _plane(along: float, across: float = 0.01) -> tuple[np.ndarray, np.ndarray]:
    """A noisy plane, and the plane itself with points moved along it as well."""
    rng = np.random.default_rng(RNG_SEED)
    clean = np.column_stack([rng.random((3000, 2)), np.zeros(3000)])
    noisy = clean + across * rng.normal(size=(3000, 1)) * [0, 0, 1]
    return noisy, clean + along * np.column_stack([rng.normal(size=(3000, 2)), np.zeros(3000)])


def limited(noisy: np.ndarray, moved: np.ndarray) -> np.ndarray:
    return limit_tangential_motion(noisy, NeighborSearch(moved))


def _share_in_place(noisy: np.ndarray, settled: np.ndarray) -> float:
    """Share of the points that did not move along the plane; some lie among points on a line."""
    return float((np.abs(settled - noisy)[:, :2].max(1) < 1e-12).mean())


def test_what_noise_explains_is_kept() -> None:
    noisy, moved = _plane(along=0.004)
    assert limited(noisy, moved) is moved


def test_what_noise_cannot_explain_is_taken_back() -> None:
    noisy, moved = _plane(along=0.02)
    settled = limited(noisy, moved)
    assert _share_in_place(noisy, settled) > 0.99
    assert np.abs(settled[:, 2]).max() < 1e-12


def test_between_them_a_part_is_taken_back() -> None:
    noisy, moved = _plane(along=0.0066)
    settled = limited(noisy, moved)
    left = np.linalg.norm(settled[:, :2] - noisy[:, :2]) / np.linalg.norm((moved - noisy)[:, :2])
    assert 0.2 < left < 0.8


def test_scale_and_place_do_not_matter() -> None:
    noisy, moved = _plane(along=0.0066)
    settled = limited(noisy, moved)
    again = limited(1e3 * noisy + 5e3, 1e3 * moved + 5e3)
    assert again == pytest.approx(1e3 * settled + 5e3, abs=1e-8)


def test_points_that_do_not_move_stay() -> None:
    points = np.random.default_rng(RNG_SEED).random((50, 3))
    assert np.array_equal(limited(points, points.copy()), points)


def test_a_large_cloud_is_probed_at_some_of_its_points() -> None:
    noisy, moved = _plane(along=0.02)
    noisy, moved = (
        np.concatenate([part + np.array([shift, 0, 0]) for shift in range(4)])
        for part in (noisy, moved)
    )
    assert _share_in_place(noisy, limited(noisy, moved)) > 0.99


def test_points_on_lines_are_left_as_they_are() -> None:
    rng = np.random.default_rng(RNG_SEED)
    lines = np.stack(np.meshgrid(np.arange(0, 1, 0.002), np.arange(0, 1, 0.1)), -1).reshape(-1, 2)
    moved = np.column_stack([lines, np.zeros(len(lines))])
    noisy = moved + rng.normal(size=moved.shape) * [0.02, 0.02, 0.01]
    assert limited(noisy, moved) is moved
