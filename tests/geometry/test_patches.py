"""Patches cover every point, and their frames move and scale with the cloud."""

from __future__ import annotations

import numpy as np
import pytest

from pdflow.geometry.frame import unit_sphere
from pdflow.geometry.morton import morton_keys
from pdflow.geometry.neighbors import NeighborSearch
from pdflow.geometry.partition import interleave
from pdflow.geometry.patches import Patches, cover, patch_frames
from pdflow.geometry.stitch import blend, resample


def _sphere(count: int, seed: int = 0) -> np.ndarray:
    points = np.random.default_rng(seed).normal(size=(count, 3))
    return points / np.linalg.norm(points, axis=1, keepdims=True)


def _blend(patches: Patches, points: np.ndarray, says: np.ndarray) -> np.ndarray:
    return blend(NeighborSearch(points), patches, says, len(points), 4.0)


@pytest.mark.parametrize("count", [1, 2, 50, 63, 64, 65, 500])
@pytest.mark.parametrize("overlap", [1.0, 3.0])
def test_every_point_is_covered(count: int, overlap: float) -> None:
    points = _sphere(count)
    patches = cover(NeighborSearch(points), 64, overlap)
    assert set(patches.rows.ravel()) == set(range(count))
    assert patches.rows.shape[1] == min(64, count)
    assert (patches.rows == patches.seeds[:, None]).any(axis=1).all()


def test_far_apart_parts_and_duplicates_are_covered() -> None:
    points = np.concatenate([_sphere(300), _sphere(40) + 1000, np.zeros((90, 3))])
    patches = cover(NeighborSearch(points), 64, 1.0)
    assert set(patches.rows.ravel()) == set(range(len(points)))


def test_balls_hold_no_point_beyond_their_radius() -> None:
    points = _sphere(400)
    patches = cover(NeighborSearch(points), 64, 3.0, radius=0.3)
    assert patches.radii.max() <= 0.3
    assert set(patches.rows.ravel()) == set(range(400))


@pytest.mark.parametrize("centred", [False, True])
def test_frames_move_and_scale_with_the_cloud(centred: bool) -> None:
    points = _sphere(500)
    moved = 1e3 * points + np.array([5e6, -4e5, 70.0])
    results = []
    for cloud in (points, moved):
        patches = cover(NeighborSearch(cloud), 64, 3.0)
        frames = patch_frames(cloud, patches, unit_sphere(cloud), (0.1, 0.6), 64, centred)
        local = frames.cut(cloud, patches.rows)
        assert np.abs(frames.undo(local) - cloud[patches.rows]).max() < 1e-9 * np.abs(cloud).max()
        results.append(local)
    assert np.abs(results[0] - results[1]).max() < 1e-8


def test_patches_outside_the_known_range_are_scaled_into_it() -> None:
    points = _sphere(5000)
    patches = cover(NeighborSearch(points), 64, 1.0)
    natural = patches.radii.mean()
    frames = patch_frames(points, patches, unit_sphere(points), (0.5, 0.6), 64, True)
    local = frames.cut(points, patches.rows)
    assert natural < 0.4
    assert np.linalg.norm(local, axis=2).max(axis=1) == pytest.approx(0.5, rel=1e-6)


def test_patches_inside_the_known_range_keep_the_clouds_frame() -> None:
    points = _sphere(5000)
    patches = cover(NeighborSearch(points), 64, 1.0)
    sphere = unit_sphere(points)
    frames = patch_frames(points, patches, sphere, (1e-3, 2.0), 64, False)
    assert frames.cut(points, patches.rows) == pytest.approx(sphere.apply(points[patches.rows]))


def test_a_patch_of_equal_points_has_a_frame() -> None:
    points = np.ones((5, 3))
    patches = cover(NeighborSearch(points), 64, 1.0)
    frames = patch_frames(points, patches, unit_sphere(points), (0.1, 0.6), 64, True)
    assert np.isfinite(frames.cut(points, patches.rows)).all()


def test_blending_what_no_patch_moved_gives_the_cloud() -> None:
    points = _sphere(300)
    patches = cover(NeighborSearch(points), 64, 3.0)
    assert _blend(patches, points, points[patches.rows]) == pytest.approx(points, abs=1e-12)


def test_blending_favours_the_patch_in_which_a_point_is_central() -> None:
    points = _sphere(200)
    patches = cover(NeighborSearch(points), 64, 3.0)
    says = points[patches.rows].copy()
    says[0] += 1.0
    blended = _blend(patches, points, says)
    shift = np.linalg.norm(blended - points, axis=1)
    assert shift[patches.rows[0, 0]] > shift[patches.rows[0, -1]]


def test_resampling_gives_the_count_and_trims_the_farthest() -> None:
    points = _sphere(300)
    patches = cover(NeighborSearch(points), 64, 3.0)
    says = points[patches.rows].copy()
    says[0, 5] = 50.0
    result = resample(NeighborSearch(points), patches, says, 300, 8.0)
    assert result.shape == (300, 3)
    assert np.abs(result).max() < 2
    everything = says[..., 0].size
    assert resample(NeighborSearch(points), patches, says, everything, 8.0).shape == (everything, 3)


def test_resampling_leaves_out_the_rims_of_patches() -> None:
    points = _sphere(300)
    patches = cover(NeighborSearch(points), 64, 3.0)
    says = points[patches.rows] * np.where(np.arange(64) < 48, 1, 1.1)[:, None]
    result = resample(NeighborSearch(points), patches, says, 300, 8.0)
    held = np.bincount(patches.rows[:, :48].ravel(), minlength=300) > 0
    assert held.mean() > 0.9
    assert (np.linalg.norm(result, axis=1) > 1.05).mean() < 0.1


def test_partitions_share_the_points_and_the_shape() -> None:
    points = _sphere(1000)
    parts = interleave(points, 4)
    assert sorted(np.concatenate(parts)) == list(range(1000))
    for rows in parts:
        assert len(rows) == 250
        assert np.linalg.norm(points[rows].mean(axis=0)) < 0.1


def test_morton_keys_do_not_depend_on_place_and_scale() -> None:
    points = np.random.default_rng(1).normal(size=(200, 3))
    order = np.argsort(morton_keys(points))
    assert (np.argsort(morton_keys(8 * points + 16)) == order).mean() > 0.97
    assert morton_keys(np.zeros((3, 3))).tolist() == [0, 0, 0]


def test_cutting_is_gathering_and_mapping_and_can_be_undone() -> None:
    points = np.random.default_rng(2).normal(size=(3000, 3))
    patches = cover(NeighborSearch(points), 64, 3.0)
    frames = patch_frames(points, patches, unit_sphere(points), (0.2, 0.4), 64, False)
    cut = frames.cut(points, patches.rows)
    shifted = points[patches.rows] - frames.origin[:, None]
    mapped = shifted / frames.scale[:, None, None] + frames.offset[:, None]
    assert np.array_equal(cut, mapped)
    np.testing.assert_allclose(frames.undo(cut), points[patches.rows], atol=1e-12)
