"""The camera of the page: keys, mouse and fingers."""

from __future__ import annotations

import numpy as np
import pytest

pytestmark = pytest.mark.browser


def camera(browser):
    """Yaw, pitch, distance and target, as the address has them."""
    words = browser.settled().partition("#camera=")[2].partition("&")[0]
    return np.array([float(word) for word in words.split(",")])


def changes(before, after):
    """Which of yaw, pitch, distance and target differ."""
    parts = ("yaw", 0, 1), ("pitch", 1, 2), ("distance", 2, 3), ("target", 3, 6)
    return {name for name, i, k in parts if (before[i:k] != after[i:k]).any()}


@pytest.fixture
def aimed(opened):
    """The page with the focus on the picture and the camera in its address."""
    opened.evaluate("document.getElementById('view').focus()")
    opened.press("ArrowRight")
    return opened


@pytest.mark.parametrize(
    ("key", "modifiers", "changed"),
    [
        ("ArrowRight", 0, {"yaw"}),
        ("ArrowUp", 0, {"pitch"}),
        ("ArrowUp", 8, {"target"}),
        ("+", 0, {"distance"}),
        ("-", 0, {"distance"}),
    ],
)
def test_keys_move_the_camera(aimed, key, modifiers, changed):
    before = camera(aimed)
    aimed.press(key, modifiers=modifiers)
    assert changes(before, camera(aimed)) == changed


def test_home_shows_all(aimed):
    before = camera(aimed)
    aimed.press("+")
    aimed.press("ArrowUp", modifiers=8)
    aimed.press("Home")
    np.testing.assert_allclose(camera(aimed), before)


def test_the_mouse_turns_shifts_and_zooms(aimed):
    start = camera(aimed)
    aimed.drag((300, 300), (360, 300))
    turned = camera(aimed)
    assert changes(start, turned) == {"yaw"}
    aimed.drag((300, 300), (300, 340), modifiers=8)
    shifted = camera(aimed)
    assert changes(turned, shifted) == {"target"}
    aimed.mouse("mouseWheel", 300, 300, deltaX=0, deltaY=-100)
    zoomed = camera(aimed)
    assert changes(shifted, zoomed) == {"distance"}
    assert zoomed[2] < shifted[2]


def test_fingers_turn_and_pinch(aimed):
    start = camera(aimed)
    aimed.touch([[(300, 300)], [(320, 300)], [(360, 300)]])
    turned = camera(aimed)
    assert changes(start, turned) == {"yaw"}
    aimed.touch([[(300, 300), (340, 300)], [(280, 300), (360, 300)], [(240, 300), (400, 300)]])
    pinched = camera(aimed)
    assert pinched[2] == pytest.approx(turned[2] / 4, rel=0.2)


def test_a_double_click_moves_the_target(aimed):
    before = camera(aimed)
    aimed.click(300, 300)
    aimed.click(300, 300, clickCount=2)
    assert changes(before, camera(aimed)) == {"target"}
