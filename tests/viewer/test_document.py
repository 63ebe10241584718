from __future__ import annotations

import base64
import hashlib
import re
from importlib import resources

import numpy as np
import pytest

import pdflow
from pdflow import PdflowError, PointCloud
from pdflow.viewer.document import bundle, document

POINTS = np.random.default_rng(0).random((100, 3))


def test_the_script_is_whole_and_imports_nothing():
    script = bundle("main")
    assert not re.search(r"^\s*(import|export)\b", script, re.M)
    files = resources.files("pdflow.viewer").joinpath("page").iterdir()
    modules = [file.name.removesuffix(".js") for file in files if file.name.endswith(".js")]
    for name in modules:
        assert script.count(f"const module_{name} = ") == 1
    assert "</script" not in script


def test_modules_stay_small():
    for file in resources.files("pdflow.viewer").joinpath("page").iterdir():
        assert len(file.read_text().splitlines()) <= 350, file.name


@pytest.mark.parametrize("data", [None, b"data"])
def test_the_policy_allows_exactly_this_script_and_style(data):
    page = document("title", data)
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', page)[1]
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    for tag, rule in (
        ('<script type="module">(.*?)</script>', "script-src"),
        ("<style>(.*?)</style>", "style-src"),
    ):
        text = re.search(tag, page, re.S)[1]
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert rules[rule] == f"'sha256-{digest}'"
    assert rules["default-src"] == "'none'"
    assert rules["connect-src"] == ("'self'" if data is None else "'none'")
    assert not re.search(r"https?://", page)


def test_titles_cannot_break_the_page():
    assert "<title>&lt;/title&gt;&lt;script&gt;</title>" in document("</title><script>", b"")


def test_a_page_can_be_saved_and_shown_in_a_notebook(tmp_path):
    page = pdflow.view(POINTS, PointCloud(POINTS + 0.01), clean=POINTS)
    page.save(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text() == page.html()
    assert base64.b64encode(page.data).decode() in page.html()
    frame = page._repr_html_()
    assert frame.count("<") == 2
    assert 'sandbox="allow-scripts"' in frame
    assert repr(page).startswith("<pdflow page of before and after")


def test_what_a_denoiser_returns_can_be_viewed():
    from pdflow.pipeline.results import Denoised

    result = Denoised(PointCloud(POINTS), report=None)
    assert pdflow.view(POINTS, result).data == pdflow.view(POINTS, POINTS).data


def test_bad_clouds_are_one_sentence(tmp_path):
    with pytest.raises(PdflowError, match="The second cloud has shape"):
        pdflow.view(POINTS, POINTS[:, :2])
    with pytest.raises(PdflowError, match="does not exist"):
        pdflow.view(POINTS).save(tmp_path / "no" / "page.html")
