"""Figures: labels and sections are there, both formats are valid, wrong names are a sentence."""

from __future__ import annotations

import re
import zlib

import numpy as np
import pytest

from pdflow import PdflowError, PointCloud
from pdflow.render.figure import Legend, Shown, legend_of, save_comparison, save_figure
from pdflow.render.files import write_pdf

Image = pytest.importorskip("PIL.Image", reason="no extra plot")
WHITE = 255


@pytest.fixture
def clouds():
    """A noisy sphere in red, and a clean one in blue."""
    random = np.random.default_rng(0)
    clean = random.normal(size=(3000, 3))
    clean /= np.linalg.norm(clean, axis=1, keepdims=True)
    noisy = clean * (1 + 0.1 * random.normal(size=(len(clean), 1)))
    red, blue = (np.tile(np.array(c, np.uint8), (3000, 1)) for c in ([230, 0, 0], [0, 0, 230]))
    return PointCloud(noisy, {"colors": red}), PointCloud(clean, {"colors": blue})


def read(path):
    return np.asarray(Image.open(path).convert("RGB")).astype(int)


def test_a_comparison_has_both_clouds_their_sections_and_a_colour_bar(clouds, tmp_path):
    before, after = clouds
    moved = np.linalg.norm(after.points - before.points, axis=1)
    path = tmp_path / "a.png"
    save_comparison(path, before, after, moved, legend_of("displacement", "m", [moved]))
    picture = read(path)
    height, width, _ = picture.shape
    left, middle = picture[:, : width // 3], picture[:, width // 3 : 2 * width // 3]
    for half in (slice(0, height // 2), slice(height // 2, height * 5 // 6)):
        for part, color, other in ((left, 0, 2), (middle, 2, 0)):
            seen = part[half][part[half].min(2) < 60]
            assert seen[:, color].mean() > 100 > seen[:, other].mean()
    # A section of a sphere is empty in the middle, and the noisy one is thicker.
    section = picture[height // 2 : height * 5 // 6]
    thin = [(section[:, k * width // 3 : (k + 1) * width // 3].min(2) < 200).sum() for k in (0, 1)]
    assert 0 < thin[1] < thin[0]
    assert (picture[-60:].min(2) < 200).any()  # the numbers of the colour bar


def test_pdf_holds_the_same_picture_without_loss(clouds, tmp_path):
    shown = [Shown("noisy", clouds[0].points), Shown("clean", clouds[1].points)]
    for suffix in ("png", "pdf"):
        save_figure(tmp_path / f"a.{suffix}", shown, None)
    data = (tmp_path / "a.pdf").read_bytes()
    assert data.startswith(b"%PDF-1.4")
    assert data.endswith(b"%%EOF\n")
    width, height = map(int, re.search(rb"/Width (\d+) /Height (\d+)", data).groups())
    begin = data.index(b"stream\n", data.index(b"/FlateDecode")) + 7
    pixels = np.frombuffer(zlib.decompressobj().decompress(data[begin:]), np.uint8)
    np.testing.assert_array_equal(pixels.reshape(height, width, 3), read(tmp_path / "a.png"))


def test_the_table_of_a_pdf_points_at_its_objects(tmp_path):
    write_pdf(tmp_path / "a.pdf", np.zeros((4, 5, 3), np.uint8))
    data = (tmp_path / "a.pdf").read_bytes()
    table = int(re.search(rb"startxref\n(\d+)", data)[1])
    assert data[table : table + 4] == b"xref"
    places = [int(m) for m in re.findall(rb"^(\d{10}) 00000 n $", data, re.M)]
    assert len(places) == 5
    for number, place in enumerate(places, 1):
        assert data[place:].startswith(b"%d 0 obj\n" % number)
    for length, body in re.findall(rb"/Length (\d+) >>\nstream\n(.*?)\nendstream", data, re.S):
        assert len(body) == int(length)


def test_many_clouds_are_drawn_each_in_its_own_panel(clouds, tmp_path):
    shown = [Shown(str(k), clouds[1].points + 100 * k, np.ones(3000)) for k in range(5)]
    save_figure(tmp_path / "a.png", shown, Legend("error", "", 1.0), sections=False)
    picture = read(tmp_path / "a.png")
    assert picture.shape[1] == 4 * 520
    assert (picture[400:700, :520].min(2) < 200).any()
    assert (picture[400:700, 1040:].min(2) == WHITE).all()


def test_a_section_without_points_and_values_of_zero_are_drawn(tmp_path):
    two = PointCloud([[0, 0, 0], [0, 1, 0], [5, 0, 1], [5, 1, 1]])
    moved = np.zeros(4)
    legend = legend_of("displacement", "m", [moved])
    assert legend.highest == 1.0
    save_comparison(tmp_path / "a.png", two, two.with_points(two.points + 50), moved, legend)


def test_other_formats_are_a_sentence(clouds, tmp_path):
    with pytest.raises(PdflowError, match=r"ends in \.png or \.pdf"):
        save_figure(tmp_path / "a.jpg", [Shown("a", clouds[0].points)], None)
