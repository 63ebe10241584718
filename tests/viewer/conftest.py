"""Two clouds and a page that shows them."""

from __future__ import annotations

import numpy as np
import pytest

from pdflow import PointCloud
from pdflow.viewer.scene import build_scene
from pdflow.viewer.show import Page

CENTER = np.array([500_000.0, 5_000_000.0, 100.0])


@pytest.fixture(scope="module")
def clouds():
    """A sphere with noise in red, and without noise in blue."""
    random = np.random.default_rng(0)
    clean = random.normal(size=(20_000, 3))
    clean /= np.linalg.norm(clean, axis=1, keepdims=True)
    noisy = clean * (1 + 0.05 * random.normal(size=(len(clean), 1)))
    attributes = {
        "classification": random.integers(2, 7, len(clean)),
        "intensity": random.random(len(clean)),
    }
    red, blue = (
        np.tile(np.array(c, np.uint8), (len(clean), 1)) for c in ([230, 0, 0], [0, 0, 230])
    )
    return [
        ("noisy <b>.ply", PointCloud(CENTER + noisy, {"colors": red, **attributes})),
        ("clean.ply", PointCloud(CENTER + clean, {"colors": blue, **attributes})),
    ]


@pytest.fixture(scope="module")
def page(clouds, tmp_path_factory):
    path = tmp_path_factory.mktemp("pages") / "page.html"
    Page(build_scene(clouds, clean=clouds[1][1].points)).save(path)
    return path.as_uri()


@pytest.fixture
def opened(browser, page):
    browser.open(page)
    yield browser
    assert browser.complaints == []
