"""A notebook that is run and saved shows the viewer."""

from __future__ import annotations

import pytest

from pdflow import PointCloud, write

pytestmark = pytest.mark.browser

CELL = """
import pdflow
before, after = pdflow.read("noisy.ply"), pdflow.read("clean.ply")
pdflow.view(before, after)
"""


@pytest.fixture
def notebook(clouds, tmp_path):
    """A notebook run by nbconvert, as HTML."""
    nbformat = pytest.importorskip("nbformat", reason="no nbconvert")
    preprocessors = pytest.importorskip("nbconvert.preprocessors", reason="no nbconvert")
    pytest.importorskip("ipykernel", reason="no ipykernel")
    from nbconvert import HTMLExporter

    for name, (_, cloud) in zip(("noisy", "clean"), clouds, strict=True):
        write(tmp_path / f"{name}.ply", PointCloud(cloud.points, cloud.attributes))
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(CELL)])
    runner = preprocessors.ExecutePreprocessor(timeout=120, kernel_name="python3")
    runner.preprocess(book, {"metadata": {"path": str(tmp_path)}})
    return book, HTMLExporter(template_name="basic").from_notebook_node(book)[0]


def test_a_notebook_shows_the_viewer(browser, notebook, tmp_path):
    book, page = notebook
    (output,) = book.cells[0].outputs
    assert output.data["text/plain"].startswith("<pdflow page of before and after")
    path = tmp_path / "book.html"
    path.write_text(f"<!doctype html><html data-ready=yes>{page}", encoding="utf-8")
    browser.open(path.as_uri())
    # The page around the frame is ready before the frame is.
    browser.wait("document.getElementById('swipe')?.hidden === false", inside=True)
    count = "document.getElementById('counts').textContent"
    browser.wait(f"{count}.includes('20,000 points')", inside=True)
