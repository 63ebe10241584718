import numpy as np
import pytest

from pdflow import PointCloud, TriangleMesh
from pdflow.errors import PdflowError


def test_utm_coordinates_keep_a_tenth_of_a_millimetre() -> None:
    points = np.array([[5e6 + 1e-4, 4e5, 100.0]])
    assert abs(PointCloud(points).points[0, 0] - 5e6 - 1e-4) < 1e-8


def test_rows_take_their_attributes_along() -> None:
    cloud = PointCloud(np.eye(3), {"colors": np.arange(9).reshape(3, 3)}, {"crs": "EPSG:1"})
    part = cloud[[2, 0]]
    assert part.attributes["colors"].tolist() == [[6, 7, 8], [0, 1, 2]]
    assert part.metadata == {"crs": "EPSG:1"}


@pytest.mark.parametrize("shape", [(3,), (2, 2), (2, 3, 1)])
def test_wrong_point_shapes_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(PdflowError, match="one row per point"):
        PointCloud(np.zeros(shape))


def test_attribute_of_wrong_length_is_refused() -> None:
    with pytest.raises(PdflowError, match="'intensity'"):
        PointCloud(np.zeros((2, 3)), {"intensity": np.zeros(3)})


def test_clouds_and_meshes_are_compared_as_objects() -> None:
    cloud, mesh = PointCloud(np.eye(3)), TriangleMesh(np.eye(3), [[0, 1, 2]])
    assert cloud == cloud
    assert cloud != PointCloud(np.eye(3))
    assert mesh in [TriangleMesh(np.eye(3), [[0, 1, 2]]), mesh]
    assert len({cloud, mesh}) == 2


def test_a_cloud_says_what_it_is_in_one_line() -> None:
    points = np.linspace([0, 0, 0], [2.07, 2.1, 0.58], 10_000)
    colors = np.zeros((10_000, 3), np.uint8)
    cloud = PointCloud(points, {"colors": colors, "intensity": np.arange(10_000)})
    assert repr(cloud) == "PointCloud: 10,000 points, colors, intensity; 2.1 x 2.1 x 0.6"
    assert repr(PointCloud(np.empty((0, 3)))) == "PointCloud: 0 points; no extent"


@pytest.mark.parametrize("values", [[np.nan, 1.0], ["<b>", "c"], [True, False], [None, {}]])
def test_any_attribute_is_shown_in_a_notebook(values: list) -> None:
    cloud = PointCloud(np.eye(3)[:2], {"<script>": np.array(values)})
    page = cloud._repr_html_()
    assert page.count("<tr>") == 3
    assert "&lt;script&gt;" in page
    assert "<script>" not in page
