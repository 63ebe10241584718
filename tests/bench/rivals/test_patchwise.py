"""Patches of the rivals: cut, denoised and stitched as the authors do."""

from __future__ import annotations

import numpy as np

from pdflow.bench.rivals.patchwise import Patching, denoise_by_patches, most_central


def test_points_come_from_the_patch_in_which_they_are_most_central():
    cloud = np.zeros((4, 3))
    rows = np.array([[0, 1, 2], [2, 1, 0]])
    sq_distances = np.array([[0.0, 0.1, 1.0], [0.0, 0.3, 2.0]])
    moved = np.arange(18.0).reshape(2, 3, 3)
    found = most_central(cloud, rows, sq_distances, moved)
    assert np.array_equal(found[:3], [moved[0, 0], moved[0, 1], moved[1, 0]])
    assert not found[3].any()


def test_a_network_that_does_nothing_changes_nothing(cloud):
    for centred in (True, False):
        patching = Patching(100, overlap=3, batch=7, centred=centred)
        done = denoise_by_patches(5 + 3 * cloud, lambda patches: patches, patching, passes=2)
        np.testing.assert_allclose(done, 5 + 3 * cloud, atol=1e-6)
    few = denoise_by_patches(cloud[:20], lambda patches: patches, Patching(100, 3, 7))
    np.testing.assert_allclose(few, cloud[:20], atol=1e-6)
