"""Outliers are found under noise, and thin, sparse or uneven surfaces are not taken for them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from pdflow.cloud import PointCloud
from pdflow.geometry.neighbors import NeighborSearch
from pdflow.geometry.triangles import closest_on_mesh
from pdflow.model import PDFlow
from pdflow.pipeline.denoise import Denoiser
from pdflow.pipeline.outliers import find_outliers, judge
from pdflow.pipeline.outliers.evidence import Described
from pdflow.pipeline.outliers.rule import load_rule
from pdflow.scenes.cases import HELD_OUT_SEEDS, make_case

Sphere = Callable[..., np.ndarray]


def found_in(points: np.ndarray) -> np.ndarray:
    return find_outliers(NeighborSearch(points))[0]


def with_outliers(sphere: Sphere, noise: float = 0.02) -> np.ndarray:
    """3,000 noisy points of a sphere of radius 1, and 6 around it as the last rows."""
    apart = np.concatenate([np.eye(3) * 1.6, -np.eye(3) * 0.5])
    return np.concatenate([sphere(3000, noise=noise), apart])


@pytest.mark.parametrize("kind", ["outliers-uniform", "outliers-clumped", "outliers-rays"])
def test_outliers_beyond_noise_are_found(kind: str) -> None:
    level = 0.01
    case = make_case(kind, HELD_OUT_SEEDS + 7, 15_000, level, outlier_share=0.05)
    far = closest_on_mesh(case.noisy, case.mesh)[0] > (4 * level * case.scan.radius) ** 2
    found = found_in(case.noisy)
    assert found[case.outliers & far].mean() >= 0.95
    assert found[~case.outliers].mean() <= 0.01


@pytest.mark.parametrize("kind", ["scan-lines", "street", "rotating-head", "strokes", "fading"])
@pytest.mark.parametrize("level", [0.0, 0.005])
def test_uneven_scans_are_kept(kind: str, level: float) -> None:
    case = make_case(kind, HELD_OUT_SEEDS + 7, 6000, level)
    points, rows = np.unique(case.noisy, axis=0, return_index=True)
    found = found_in(points)
    assert found[~case.outliers[rows]].mean() < 0.01


def test_scale_and_place_do_not_matter(sphere: Sphere) -> None:
    points = with_outliers(sphere)
    odds, _ = judge(Described.of(NeighborSearch(points)), load_rule())
    moved, _ = judge(Described.of(NeighborSearch(500 * points + [3e4, 0, -2e4])), load_rule())
    assert moved == pytest.approx(odds, abs=0.05)
    assert found_in(points)[-6:].all()


def test_a_part_is_judged_by_the_facts_of_the_whole(sphere: Sphere) -> None:
    points = with_outliers(sphere)
    thin = np.arange(len(points)) % 4 == 0
    found, facts = find_outliers(NeighborSearch(points), None, thin)
    part = points[:, 0] > -0.6
    again, same = find_outliers(NeighborSearch(points[part]), facts, thin[part])
    inner = points[part, 0] > 0.3
    assert same is facts
    assert np.array_equal(again[inner], found[part][inner])


def test_few_points_have_no_outliers(sphere: Sphere) -> None:
    for count in (0, 1, 63):
        assert not found_in(sphere(count).reshape(-1, 3)).any()
    assert found_in(sphere(70)).shape == (70,)


def test_a_grid_without_noise_has_no_outliers() -> None:
    grid = np.stack(np.meshgrid(*[np.arange(40.0)] * 2, [0.0]), axis=-1).reshape(-1, 3)
    assert not found_in(grid).any()


def test_outliers_are_marked_or_removed_and_bend_nothing(model: PDFlow, sphere: Sphere) -> None:
    cloud = PointCloud(with_outliers(sphere))
    marked = Denoiser(model, iterations=1, outliers="mark")(cloud)
    removed = Denoiser(model, iterations=1, outliers="remove")(cloud)
    column = marked.cloud.attributes["outlier"]
    assert column[-6:].all()
    assert column.sum() == marked.report.outliers == removed.report.outliers < 20
    assert np.array_equal(removed.cloud.points, marked.cloud.points[column == 0])
    assert np.array_equal(marked.cloud.points[-6:], cloud.points[-6:])
