"""Principal axes turn with a cloud and do not depend on its order or place."""

from __future__ import annotations

import numpy as np
import pytest

from pdflow.geometry.arrays import FloatArray
from pdflow.geometry.axes import OwnFrame, axes_of_patches
from pdflow.geometry.frame import unit_sphere
from pdflow.geometry.neighbors import NeighborSearch
from pdflow.geometry.partition import interleave
from pdflow.geometry.patches import cover, patch_frames

RNG = np.random.default_rng(3)
POINTS = RNG.gamma(2.0, size=(4000, 3)) * [3.0, 2.0, 1.0]


def _turn(mirror: bool = False) -> FloatArray:
    turn = np.linalg.qr(np.random.default_rng(4).normal(size=(3, 3)))[0]
    return np.asarray(turn * (np.sign(np.linalg.det(turn)) * (-1 if mirror else 1)))


def test_the_first_axis_is_that_of_the_least_variance() -> None:
    frame = OwnFrame.of(POINTS)
    np.testing.assert_allclose(frame.axes.T @ frame.axes, np.eye(3), atol=1e-12)
    variances = frame.apply(POINTS).var(axis=0)
    assert variances[0] < variances[1] < variances[2]
    assert variances.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("mirror", [False, True])
def test_a_turned_cloud_has_turned_axes(mirror: bool) -> None:
    turned = POINTS @ _turn(mirror).T + [1e3, -50.0, 7.0]
    own, other = OwnFrame.of(POINTS).apply(POINTS), OwnFrame.of(turned).apply(turned)
    np.testing.assert_allclose(own, other, atol=1e-7)


def test_the_order_of_rows_changes_no_bit() -> None:
    shuffled = OwnFrame.of(RNG.permutation(POINTS))
    frame = OwnFrame.of(POINTS)
    assert np.array_equal(frame.axes, shuffled.axes)
    assert np.array_equal(frame.center, shuffled.center)
    assert frame.scale == shuffled.scale


@pytest.mark.parametrize("points", [np.zeros((5, 3)), np.ones((1, 3)), np.eye(3)[:2]])
def test_clouds_without_extent_have_axes(points: FloatArray) -> None:
    frame = OwnFrame.of(points)
    np.testing.assert_allclose(frame.axes.T @ frame.axes, np.eye(3), atol=1e-12)
    assert frame.scale > 0


def test_a_point_at_the_rim_of_a_patch_turns_its_axes_little() -> None:
    disc = RNG.normal(size=(1, 500, 3)) * [1.0, 0.5, 0.1]
    disc /= np.linalg.norm(disc, axis=2).max()
    rim = np.concatenate([disc, [[[0.0, 0.999, 0.0]]]], axis=1)
    kept, moved = axes_of_patches(disc), axes_of_patches(rim)
    assert np.abs(kept - moved).max() < 1e-3


@pytest.mark.parametrize("mirror", [False, True])
def test_centred_patches_and_partitions_of_a_turned_cloud_are_the_same(mirror: bool) -> None:
    local = []
    for cloud in (POINTS, POINTS @ _turn(mirror).T):
        patches = cover(NeighborSearch(cloud), 64, 3.0)
        frames = patch_frames(cloud, patches, unit_sphere(cloud), (0.3, 0.3), 64, True)
        cut = frames.cut(cloud, patches.rows)
        np.testing.assert_allclose(frames.undo(cut), cloud[patches.rows], atol=1e-12)
        local.append((patches.rows, cut, interleave(cloud, 2)[0]))
    (rows, cut, part), (other_rows, other_cut, other_part) = local
    assert np.array_equal(rows, other_rows)
    np.testing.assert_allclose(cut, other_cut, atol=1e-6)
    assert len(np.intersect1d(part, other_part)) > 0.99 * len(part)
