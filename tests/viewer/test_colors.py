from __future__ import annotations

import numpy as np

from pdflow.viewer.colors import class_colors, oklab_to_rgb, ramp, rgb_to_oklab


def test_steps_of_the_ramp_look_equally_different():
    lab = rgb_to_oklab(ramp() / 255)
    steps = np.linalg.norm(lab[16::16] - lab[:-16:16], axis=1)
    assert steps.max() < 1.1 * steps.min()


def test_the_ramp_grows_lighter_all_along():
    lightness = rgb_to_oklab(ramp() / 255)[::4, 0]
    assert (np.diff(lightness) > 0).all()
    assert lightness[-1] - lightness[0] > 0.6


def test_colour_spaces_undo_each_other():
    rgb = np.random.default_rng(0).random((100, 3))
    np.testing.assert_allclose(oklab_to_rgb(rgb_to_oklab(rgb)), rgb, atol=1e-6)


def test_classes_that_follow_each_other_are_told_apart():
    lab = rgb_to_oklab(class_colors() / 255)
    assert len({tuple(color) for color in class_colors()}) == len(lab)
    assert np.linalg.norm(np.diff(lab, axis=0), axis=1).min() > 0.1
