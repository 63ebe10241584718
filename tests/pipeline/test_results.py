"""What a run gives back besides points."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import pdflow
from pdflow.cloud import PointCloud
from pdflow.errors import LossWarning
from pdflow.pipeline.results import Denoised, Report, with_columns, without_row_metadata

REPORT = Report(10_000, 9_998, 2, 0.02, 0.004, 1, 1, 0.015, 0.0812345, 0, 3.21)

MESH = """ply
format ascii 1.0
element vertex 3
property float x
property float y
property float z
element face 1
property list uchar int vertex_indices
end_header
0 0 0
1 0 0
0 1 0
3 0 1 2
"""


def test_columns_are_added_and_replacing_one_gives_a_warning() -> None:
    cloud = PointCloud(np.eye(3), {"a": np.arange(3), "b": np.arange(3)}, {"crs": "EPSG:4979"})
    with pytest.warns(LossWarning, match="'b'") as given:
        result = with_columns(cloud, {"b": np.ones(3), "c": np.zeros((3, 3))})
    assert len(given) == 1
    assert list(result.attributes) == ["a", "b", "c"]
    assert result.attributes["b"].tolist() == [1, 1, 1]
    assert result.metadata == cloud.metadata


def test_faces_do_not_stay_where_rows_are_new(tmp_path: Path) -> None:
    (tmp_path / "mesh.ply").write_text(MESH)
    cloud = pdflow.read(tmp_path / "mesh.ply")
    pdflow.write(tmp_path / "kept.ply", cloud)
    assert len(pdflow.read_mesh(tmp_path / "kept.ply").faces) == 1
    with pytest.warns(LossWarning, match="face"):
        pdflow.write(tmp_path / "new.ply", without_row_metadata(cloud))
    assert "elements" not in pdflow.read(tmp_path / "new.ply").metadata["ply"]


def test_an_organised_cloud_has_no_lines_where_rows_are_new(tmp_path: Path) -> None:
    metadata = {"pcd": {"width": 2, "height": 3, "viewpoint": [0, 0, 0, 1, 0, 0, 0]}, "crs": "x"}
    cloud = PointCloud(np.arange(18.0).reshape(6, 3), {}, metadata)
    pdflow.write(tmp_path / "new.pcd", without_row_metadata(cloud))
    assert pdflow.read(tmp_path / "new.pcd").metadata["pcd"]["height"] == 1
    assert without_row_metadata(cloud).metadata["crs"] == "x"
    assert cloud.metadata == metadata


def test_a_report_reads_as_one_line() -> None:
    assert repr(REPORT) == (
        "Report: 9,998 points, noise 0.02 -> 0.004, 1 pass, moved by 0.015 (at most 0.0812), "
        "2 outliers, 3.2 s"
    )


def test_a_notebook_shows_a_cloud_and_its_report() -> None:
    done = Denoised(PointCloud(np.eye(3)), REPORT)
    assert repr(done).splitlines() == [repr(done.cloud), repr(REPORT)]
    page = done._repr_html_()
    assert page.count("<table>") == 2
    assert "<tr><td>noise before</td><td>0.02</td></tr>" in page
