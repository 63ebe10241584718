"""Pictures: what is seen where, colours, hiding, panels, and files that are valid PNG."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from pdflow.errors import PdflowError
from pdflow.render import BACKGROUND, Panel, View, color_map, render, render_panels, write_png

RED, GREEN, BLUE = (255, 0, 0), (0, 255, 0), (0, 0, 255)
FRONT = View(azimuth=0, elevation=0, field_of_view=0)
"""Seen along +y: x goes to the right, z up, and small y is near."""


def read_png(path: Path) -> NDArray[np.uint8]:
    """A PNG of 8-bit RGB without interlacing, read from its definition."""
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    place, body = 8, b""
    while place < len(data):
        (length,) = struct.unpack_from(">I", data, place)
        kind, chunk = data[place + 4 : place + 8], data[place + 8 : place + 8 + length]
        (crc,) = struct.unpack_from(">I", data, place + 8 + length)
        assert crc == zlib.crc32(kind + chunk)
        if kind == b"IHDR":
            width, height, *kinds = struct.unpack(">IIBBBBB", chunk)
            assert kinds == [8, 2, 0, 0, 0]
        if kind == b"IDAT":
            body += chunk
        place += 12 + length
    rows = np.frombuffer(zlib.decompress(body), np.uint8).reshape(height, 1 + 3 * width)
    image = np.zeros((height, 3 * width), np.uint8)
    for i, row in enumerate(rows):
        above = image[i - 1] if i else np.zeros(3 * width, np.uint8)
        image[i] = row[1:] + (above if row[0] == 2 else 0)
    return image.reshape(height, width, 3)


def colour_at(image: NDArray[np.uint8], right: float, up: float) -> tuple[int, ...]:
    """Colour at a place given from 0 to 1 in the picture."""
    height, width, _ = image.shape
    pixel = image[int((1 - up) * (height - 1)), int(right * (width - 1))]
    return tuple(int(v) for v in pixel)


def corners(depth: float = 0.0) -> NDArray[np.float64]:
    return np.array([[-1, depth, -1], [1, depth, -1], [-1, depth, 1], [1, depth, 1]], float)


def test_png_round_trip(tmp_path: Path) -> None:
    image = np.random.default_rng(0).integers(0, 256, (7, 5, 3), dtype=np.uint8)
    write_png(tmp_path / "a.png", image)
    np.testing.assert_array_equal(read_png(tmp_path / "a.png"), image)


def test_places_and_colours(tmp_path: Path) -> None:
    colors = np.array([RED, GREEN, BLUE, (9, 9, 9)], np.uint8)
    render(corners(), colors, tmp_path / "a.png", size=(100, 100), view=FRONT, point_size=10)
    image = read_png(tmp_path / "a.png")
    assert image.shape == (100, 100, 3)
    edge = 0.5 / 1.08
    low, high = 0.5 - edge, 0.5 + edge
    assert colour_at(image, low, low) == RED
    assert colour_at(image, high, low) == GREEN
    assert colour_at(image, low, high) == BLUE
    assert colour_at(image, 0.5, 0.5) == BACKGROUND


def test_the_near_point_hides_the_far_one(tmp_path: Path) -> None:
    points = np.concatenate([corners(), [[0, -0.5, 0], [0, 0.5, 0]]])
    colors = np.array([BLUE] * 4 + [RED, GREEN], np.uint8)
    for order in (np.arange(6), np.arange(6)[::-1]):
        render(
            points[order],
            colors[order],
            tmp_path / "a.png",
            size=(80, 80),
            view=FRONT,
            point_size=10,
        )
        assert colour_at(read_png(tmp_path / "a.png"), 0.5, 0.5) == RED
    behind = View(azimuth=180, elevation=0, field_of_view=0)
    render(points, colors, tmp_path / "a.png", size=(80, 80), view=behind, point_size=10)
    assert colour_at(read_png(tmp_path / "a.png"), 0.5, 0.5) == GREEN


def test_perspective_shows_the_near_side_larger(tmp_path: Path) -> None:
    points = np.concatenate([corners(-1.0), corners(1.0)])
    colors = np.array([RED] * 4 + [GREEN] * 4, np.uint8)
    options = {"size": (200, 200), "point_size": 4}
    render(points, colors, tmp_path / "o.png", view=FRONT, **options)  # type: ignore[arg-type]
    flat = read_png(tmp_path / "o.png")
    assert not (flat == GREEN).all(-1).any()  # straight behind the red ones
    view = View(azimuth=0, elevation=0, field_of_view=40)
    render(points, colors, tmp_path / "p.png", view=view, **options)  # type: ignore[arg-type]
    deep = read_png(tmp_path / "p.png")
    spread = [np.ptp(np.argwhere(deep[..., k] > deep.sum(-1) / 2)[:, 1]) for k in (0, 1)]
    assert spread[0] > 1.3 * spread[1] > 0


def test_y_up_turns_the_picture(tmp_path: Path) -> None:
    points = np.array([[-1, -1, 0], [1, -1, 0], [0, 1, 0]], float)
    colors = np.array([RED, RED, BLUE], np.uint8)
    view = View(azimuth=0, elevation=0, field_of_view=0, up="y")
    render(points, colors, tmp_path / "a.png", size=(100, 100), view=view, point_size=10)
    assert colour_at(read_png(tmp_path / "a.png"), 0.5, 0.5 + 0.5 / 1.08) == BLUE


def test_values_use_one_range_for_all_panels(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    panels = [Panel(corners(), np.zeros(4)), Panel(corners(), np.full(4, 5.0))]
    render_panels(panels, path, size=(60, 60), view=FRONT, value_range=(0, 5), point_size=8)
    image = read_png(path)
    assert image.shape == (60, 120, 3)
    low, high = color_map([0, 5], 0, 5).tolist()
    at = 0.5 - 0.5 / 1.08
    assert colour_at(image[:, :60], at, at) == tuple(low)
    assert colour_at(image[:, 60:], at, at) == tuple(high)
    render_panels(panels * 3, path, columns=4, size=(30, 20))
    assert read_png(path).shape == (40, 120, 3)


def test_before_and_after_share_their_frame(tmp_path: Path) -> None:
    """A cloud half as large stays half as large beside the other, unless asked otherwise."""
    path = tmp_path / "a.png"
    panels = [Panel(corners(), np.tile(RED, (4, 1))), Panel(0.5 * corners(), np.tile(RED, (4, 1)))]
    widths = []
    for same_frame in (True, False):
        render_panels(panels, path, size=(90, 90), view=FRONT, point_size=4, same_frame=same_frame)
        dots = (read_png(path) == RED).all(-1)
        widths.append([np.ptp(np.argwhere(dots[:, s])[:, 1]) for s in (slice(90), slice(90, 180))])
    assert widths[0][1] == pytest.approx(widths[0][0] / 2, abs=3)
    assert widths[1][1] == pytest.approx(widths[1][0], abs=2)


def test_an_outlier_does_not_shrink_the_rest(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    points = np.concatenate([rng.uniform(-1, 1, (5000, 3)), [[500.0, 0, 0]]])
    render(points, None, tmp_path / "a.png", size=(80, 80))
    assert (read_png(tmp_path / "a.png") != BACKGROUND).any(-1).mean() > 0.3


def test_kinds_of_colour(tmp_path: Path) -> None:
    at = 0.5 - 0.5 / 1.08
    for color in (
        np.tile(GREEN, (4, 1)),
        np.tile([0.0, 1.0, 0.0], (4, 1)),
        np.tile(np.array([0, 65535, 0], np.uint16), (4, 1)),
    ):
        render(corners(), color, tmp_path / "a.png", size=(50, 50), view=FRONT, point_size=6)
        assert colour_at(read_png(tmp_path / "a.png"), at, at) == GREEN


def test_color_map_is_smooth_and_stays_at_its_ends() -> None:
    ramp = color_map(np.linspace(-1, 2, 301), 0, 1).astype(int)
    assert (ramp[:101] == ramp[0]).all()
    assert (ramp[200:] == ramp[-1]).all()
    assert np.abs(np.diff(ramp, axis=0)).max() <= 12
    assert len(np.unique(ramp[100:201], axis=0)) == 101
    assert (color_map([3.0, 3.0], 3.0, 3.0) == ramp[0]).all()


def test_one_point_can_be_drawn(tmp_path: Path) -> None:
    render([[5.0, 5.0, 5.0]], None, tmp_path / "a.png", size=(40, 40))
    assert colour_at(read_png(tmp_path / "a.png"), 0.5, 0.5) != BACKGROUND


def test_bad_input_is_one_sentence_and_no_file(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    with pytest.raises(PdflowError, match="3 points: give one value or three each"):
        render(np.zeros((3, 3)), np.zeros(2), path)
    with pytest.raises(PdflowError, match="NaN"):
        render(np.full((3, 3), np.nan), None, path)
    with pytest.raises(PdflowError, match=r"ends in \.png"):
        render(np.zeros((3, 3)), None, tmp_path / "a.jpg")
    with pytest.raises(PdflowError, match="at least one panel"):
        render_panels([], path)
    with pytest.raises(PdflowError, match="choose y or z"):
        View(up="x")
    with pytest.raises(PdflowError, match="field of view"):
        View(field_of_view=180)
    assert list(tmp_path.iterdir()) == []
