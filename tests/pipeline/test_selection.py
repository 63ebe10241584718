"""Which points may move: masks and conditions, and what a run does with them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from pdflow.cloud import PointCloud
from pdflow.errors import PdflowError
from pdflow.model import PDFlow
from pdflow.pipeline.denoise import Denoiser
from pdflow.pipeline.selection import select


@pytest.fixture
def cloud() -> PointCloud:
    points = np.column_stack([np.arange(6.0), np.zeros(6), -np.arange(6.0)])
    attributes = {
        "classification": np.array([1, 2, 2, 6, 6, 7], dtype=np.uint8),
        "intensity": np.linspace(0, 1, 6),
        "colors": np.zeros((6, 3), dtype=np.uint8),
        "name": np.full(6, "a"),
    }
    return PointCloud(points, attributes)


@pytest.mark.parametrize(
    ("where", "rows"),
    [
        ("classification == 2", [1, 2]),
        ("classification!=2", [0, 3, 4, 5]),
        ("classification in 2,6", [1, 2, 3, 4]),
        ("classification in (2, 7)", [1, 2, 5]),
        ("intensity >= 0.4 and x<4", [2, 3]),
        ("z <= -4", [4, 5]),
        ("x > 1e0 and x < 3 and y == 0", [2]),
        (np.arange(6) == 3, [3]),
        (None, [0, 1, 2, 3, 4, 5]),
    ],
)
def test_conditions_and_masks_select(cloud: PointCloud, where: object, rows: list[int]) -> None:
    assert np.flatnonzero(select(cloud, where)).tolist() == rows  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("where", "words"),
    [
        ("classification", "such as 'classification == 2'"),
        ("classification = 2", "such as 'classification == 2'"),
        ("classification == two", "'two' is no number"),
        ("classification in 2,", "no number"),
        ("__import__('os') == 1", "no attribute"),
        ("gps_time > 1", "its attributes are classification"),
        ("colors == 1", "not one number for each point"),
        ("name == 1", "not one number for each point"),
        ("", "such as"),
        (np.ones(6), "one bool for each of 6 points"),
        (np.ones(5, bool), "one bool for each of 6 points"),
    ],
)
def test_what_selects_nothing_is_refused(cloud: PointCloud, where: object, words: str) -> None:
    with pytest.raises(PdflowError, match=words):
        select(cloud, where)  # type: ignore[arg-type]


def test_only_selected_points_move_and_the_others_show_the_surface(
    model: PDFlow, sphere: Callable[..., np.ndarray]
) -> None:
    points = sphere(1500)
    points = np.concatenate([points, points[:1]])
    classes = np.full(1501, 2, dtype=np.uint8)
    classes[700:] = 5
    cloud = PointCloud(points, {"classification": classes})
    everything = Denoiser(model, iterations=1)(cloud)
    some = Denoiser(model, iterations=1, where="classification == 2")(cloud)
    assert np.array_equal(some.cloud.points[:700], everything.cloud.points[:700])
    assert np.array_equal(some.cloud.points[700:], points[700:])
    assert some.report.held_back == {
        "bound": 0,
        "no_surface": 0,
        "not_selected": 801,
        "implausible": 0,
    }
