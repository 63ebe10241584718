from __future__ import annotations

import numpy as np
import pytest

from pdflow import PdflowError, PointCloud, TriangleMesh
from pdflow.viewer.scene import build_scene, rows_match


@pytest.fixture
def cloud():
    random = np.random.default_rng(0)
    return PointCloud(random.random((2000, 3)), {"row": np.arange(2000)})


def channel(shown, name):
    return next((c for c in shown.channels if c.name == name), None)


def test_displacement_is_the_way_between_rows(cloud):
    way = np.array([0.03, 0.0, 0.04])
    moved = cloud.with_points(cloud.points + way)
    scene = build_scene([("a", cloud), ("b", moved)])
    for shown in scene.clouds:
        assert channel(shown, "displacement").shown == pytest.approx((0.0, 0.05))
    np.testing.assert_allclose(
        scene.clouds[1].points - scene.clouds[0].points, [[0.03, 0, 0.04]] * 2000
    )


def test_clouds_of_other_rows_have_no_displacement(cloud):
    shuffled = cloud.with_points(cloud.points[::-1])
    assert not rows_match(cloud, shuffled)
    for other in (shuffled, cloud[:500]):
        scene = build_scene([("a", cloud), ("b", other)])
        assert [channel(shown, "displacement") for shown in scene.clouds] == [None, None]


def test_errors_are_distances_to_the_clean_cloud_or_mesh(cloud):
    plane = TriangleMesh([[-9, -9, 0], [9, -9, 0], [0, 9, 0]], [[0, 1, 2]])
    scene = build_scene([("a", cloud)], plane)
    assert channel(scene.clouds[0], "error").high == pytest.approx(cloud.points[:, 2].max())
    scene = build_scene([("a", cloud)], [[0.0, 0.0, 0.0]])
    assert channel(scene.clouds[0], "error").high == pytest.approx(
        np.linalg.norm(cloud.points, axis=1).max()
    )


def test_large_clouds_are_thinned_alike(cloud):
    moved = cloud.with_points(cloud.points + 0.01)
    scene = build_scene([("a", cloud), ("b", moved), ("c", cloud[:50])], most_points=100)
    assert [len(shown.points) for shown in scene.clouds] == [100, 100, 50]
    assert [shown.total for shown in scene.clouds] == [2000, 2000, 50]
    np.testing.assert_allclose(scene.clouds[1].points - scene.clouds[0].points, 0.01)


@pytest.mark.parametrize(
    ("metadata", "unit"),
    [
        ({}, "units"),
        ({"e57": {}}, "m"),
        ({"crs": 'PROJCRS["x",LENGTHUNIT["metre",1]]'}, "m"),
        ({"crs": "EPSG:2263"}, "units"),
    ],
)
def test_the_unit_is_that_of_the_file(metadata, unit):
    assert build_scene([("a", PointCloud([[0, 0, 0]], metadata=metadata))]).unit == unit


def test_errors_say_which_cloud(cloud):
    with pytest.raises(PdflowError, match=r"b holds no points"):
        build_scene([("a", cloud), ("b", cloud[:0])])
    with pytest.raises(PdflowError, match=r"a has NaN"):
        build_scene([("a", PointCloud([[0, np.nan, 0]]))])
    with pytest.raises(PdflowError, match="choose 1 or more"):
        build_scene([("a", cloud)], most_points=0)
