"""Clouds side by side: points splatted into a z-buffer, seen from one direction."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pdflow.errors import PdflowError
from pdflow.geometry.arrays import FloatArray, finite_points
from pdflow.geometry.frame import Frame, unit_sphere
from pdflow.render.files import Image, write_png

PathLike = str | os.PathLike[str]

BACKGROUND = (255, 255, 255)
PLAIN = (92, 122, 163)
"""Colour of points without a colour."""

_ANCHORS = ((48, 71, 140), (38, 122, 189), (80, 184, 178), (244, 231, 150), (236, 128, 52),
            (158, 12, 38))  # fmt: skip
"""Colours of evenly spaced values from low to high: dark blue, pale yellow, dark red."""

_SUPERSAMPLING = 2
_MARGIN = 1.08
_SHADE_REACHES = (1, 3, 9)
_SHADE_STRENGTH = 0.1


@dataclass(frozen=True)
class View:
    """The direction from which a cloud is seen.

    azimuth        degrees to the right around the z axis; 0 looks along +y
    elevation      degrees above the xy plane
    field_of_view  degrees of a perspective camera; 0 is orthographic
    up             axis that points up in the picture: "z", or "y" as in many scanned models
    """

    azimuth: float = 30.0
    elevation: float = 20.0
    field_of_view: float = 25.0
    up: str = "z"

    def __post_init__(self) -> None:
        if self.up not in ("y", "z"):
            raise PdflowError(f"Up is {self.up!r}: choose y or z.")
        if not 0 <= self.field_of_view < 120:
            raise PdflowError(
                f"The field of view is {self.field_of_view}: choose 0 to 119 degrees."
            )

    def rotation(self) -> FloatArray:
        """(3, 3): rows are the directions right, up and towards the eye, in the cloud's axes."""
        a, e = np.radians(self.azimuth), np.radians(self.elevation)
        right = np.array([np.cos(a), np.sin(a), 0.0])
        back = np.array([np.cos(e) * np.sin(a), -np.cos(e) * np.cos(a), np.sin(e)])
        rows = np.stack([right, np.cross(back, right), back])
        # A cloud with y up is rotated first: its (x, y, z) is (x, -z, y) with z up.
        return rows if self.up == "z" else rows @ np.array([[1, 0, 0], [0, 0, -1], [0, 1, 0.0]])

    def project(self, points: FloatArray, frame: Frame) -> FloatArray:
        """(M, 3): coordinates to the right and up in the picture, and nearness to the eye.

        frame  the sphere that the eye looks at; its radius is the unit of all three
        """
        seen = np.asarray(frame.apply(points) @ self.rotation().T)
        if self.field_of_view > 0:
            eye = 1 / np.sin(np.radians(self.field_of_view / 2))
            seen[:, :2] *= (eye / (eye - seen[:, 2]))[:, None]
        return seen


@dataclass(frozen=True)
class Panel:
    """One cloud of a picture: points (M, 3), and values (M,) or colours (M, 3), or neither.

    Colours are 0 to 255 in integers or 0 to 1 in floats.
    """

    points: Any
    color: Any = None


def render(
    points: ArrayLike,
    color: ArrayLike | None,
    path: PathLike,
    *,
    size: tuple[int, int] = (800, 800),
    view: View | None = None,
    value_range: tuple[float, float] | None = None,
    point_size: float | None = None,
) -> None:
    """Write a picture of one cloud as PNG, atomically. See `render_panels`."""
    render_panels(
        [Panel(points, color)],
        path,
        size=size,
        view=view,
        value_range=value_range,
        point_size=point_size,
    )


def render_panels(
    panels: Sequence[Panel],
    path: PathLike,
    *,
    columns: int | None = None,
    size: tuple[int, int] = (800, 800),
    view: View | None = None,
    value_range: tuple[float, float] | None = None,
    point_size: float | None = None,
    same_frame: bool = True,
) -> None:
    """Write a picture of several clouds side by side as PNG, atomically.

    columns      panels in a row; by default up to four
    size         width and height of one panel in pixels
    view         direction from which all of them are seen
    value_range  values of the first and the last colour, for all panels; by default 0 or the
                 minimum, and the 99 % quantile of all values
    point_size   diameter of a point in pixels; by default large enough that surfaces look closed
    same_frame   True: all panels show the same part of space at the same scale, as needed for
                 before and after; False: each cloud fills its own panel
    """
    if Path(path).suffix.lower() != ".png":
        raise PdflowError(f"{path}: pictures are written as PNG: choose a name that ends in .png.")
    images = draw_panels(
        panels,
        size=size,
        view=view,
        value_range=value_range,
        point_size=point_size,
        same_frame=same_frame,
    )
    write_png(path, _tile(images, columns or min(4, len(images))))


def draw_panels(
    panels: Sequence[Panel],
    *,
    size: tuple[int, int] = (800, 800),
    view: View | None = None,
    value_range: tuple[float, float] | None = None,
    point_size: float | None = None,
    same_frame: bool = True,
    shaded: bool = True,
) -> list[Image]:
    """Pictures (height, width, 3) of the panels. See `render_panels`.

    shaded  False draws points in their plain colours, which suits a section
    """
    if not panels:
        raise PdflowError("There is no cloud to draw: give at least one panel.")
    clouds = [finite_points(panel.points, "A cloud to draw") for panel in panels]
    limits = value_range or _value_range([panel.color for panel in panels])
    colors = [
        _colors(panel.color, len(cloud), limits)
        for panel, cloud in zip(panels, clouds, strict=True)
    ]
    view = view or View()
    if same_frame:
        frame = unit_sphere(np.concatenate(clouds))
        seen = [view.project(cloud, frame) for cloud in clouds]
        windows = [_window(np.concatenate(seen), size)] * len(seen)
    else:
        seen = [view.project(cloud, unit_sphere(cloud)) for cloud in clouds]
        windows = [_window(points, size) for points in seen]
    return [
        _draw(points, color, window, size, point_size, shaded)
        for points, color, window in zip(seen, colors, windows, strict=True)
    ]


def color_map(values: ArrayLike, low: float, high: float) -> Image:
    """Colours (M, 3) of values (M,): dark blue at `low` and below, dark red at `high` and above.

    >>> color_map([0.0, 2.0], 0.0, 1.0).tolist()
    [[48, 71, 140], [158, 12, 38]]
    """
    anchors = np.array(_ANCHORS, dtype=np.float64)
    span = high - low if high > low else 1.0
    place = np.clip((np.asarray(values, dtype=np.float64) - low) / span, 0, 1) * (len(anchors) - 1)
    knots = np.arange(len(anchors))
    channels = [np.interp(place, knots, anchors[:, k]) for k in range(3)]
    return np.asarray(np.rint(np.stack(channels, axis=-1)), dtype=np.uint8)


def _value_range(colors: Sequence[Any]) -> tuple[float, float]:
    values = [np.asarray(c, np.float64) for c in colors if c is not None and np.ndim(c) == 1]
    if not values:
        return 0.0, 1.0
    together = np.concatenate(values)
    return min(0.0, float(together.min())), float(np.quantile(together, 0.99))


def _colors(color: Any, count: int, limits: tuple[float, float]) -> Image:
    if color is None:
        return np.tile(np.array(PLAIN, np.uint8), (count, 1))
    array = np.asarray(color)
    if len(array) != count or array.shape[1:] not in ((), (3,)):
        raise PdflowError(
            f"Colours have shape {array.shape} for {count} points: give one value or three each."
        )
    if array.ndim == 1:
        return color_map(array, *limits)
    if array.dtype.kind == "f":
        array = np.rint(255 * np.clip(array, 0, 1))
    elif array.dtype == np.uint16:
        array = array >> 8  # as LAS stores colours
    return array.astype(np.uint8)


def _window(seen: FloatArray, size: tuple[int, int]) -> tuple[float, float, float]:
    """Centre of the view (right, up), and pixels per unit so that the cloud fills the picture.

    The outermost thousandth of the points on each side may fall outside, so that an outlier does
    not shrink the rest.
    """
    low, high = np.quantile(seen[:, :2], [0.001, 0.999], axis=0)
    extent = np.maximum(high - low, 1e-9)
    middle = (low + high) / 2
    return float(middle[0]), float(middle[1]), float((np.array(size) / extent).min() / _MARGIN)


def _draw(
    seen: FloatArray,
    colors: Image,
    window: tuple[float, float, float],
    size: tuple[int, int],
    point_size: float | None,
    shaded: bool,
) -> Image:
    """A picture (height, width, 3) of projected points (M, 3) in colours (M, 3).

    Points are discs that hide each other. Their shading comes from the z-buffer, so no normals are
    needed. The picture is drawn at twice its size and averaged.
    """
    width, height = (_SUPERSAMPLING * side for side in size)
    middle_x, middle_y, scale = window
    scale *= _SUPERSAMPLING
    x = width / 2 + scale * (seen[:, 0] - middle_x)
    y = height / 2 - scale * (seen[:, 1] - middle_y)
    diameter = _SUPERSAMPLING * point_size if point_size else _closing_size(x, y, width, height)
    front, depth = _splat(x, y, scale * seen[:, 2], diameter / 2, (height, width))
    hit = front >= 0
    image = np.full((height, width, 3), BACKGROUND, np.float64)
    image[hit] = colors[front[hit]]
    if shaded:
        image[hit] *= _shade(depth)[hit][:, None]
    step = _SUPERSAMPLING
    small = image.reshape(height // step, step, width // step, step, 3).mean((1, 3))
    return np.asarray(np.rint(small), dtype=np.uint8)


def _closing_size(x: FloatArray, y: FloatArray, width: int, height: int) -> float:
    """Diameter in pixels at which the points leave no gaps, if half of them are in front."""
    cell = max(width, height) / 100
    shown = (x >= 0) & (x < width) & (y >= 0) & (y < height)
    places = (x[shown] // cell).astype(np.int64) + 100 * (y[shown] // cell).astype(np.int64)
    cells = np.count_nonzero(np.bincount(places))
    spacing = np.sqrt(cells * cell**2 / max(len(x) / 2, 1))
    return float(np.clip(2.8 * spacing, 2.0 * _SUPERSAMPLING, min(width, height) / 25))


def _splat(
    x: FloatArray, y: FloatArray, nearness: FloatArray, radius: float, shape: tuple[int, int]
) -> tuple[NDArray[np.int64], FloatArray]:
    """Row of the point seen at each pixel (-1 for none), and its nearness (-inf for none)."""
    reach = int(np.ceil(radius))
    padded = (shape[0] + 2 * reach, shape[1] + 2 * reach)  # so that no disc is cut by an edge
    columns, rows = np.floor(x + reach).astype(np.int64), np.floor(y + reach).astype(np.int64)
    inside = (columns >= reach) & (columns < padded[1] - reach)
    inside &= (rows >= reach) & (rows < padded[0] - reach)
    order = np.flatnonzero(inside)
    order = order[np.argsort(nearness[order], kind="stable")]  # far first: higher rank, nearer
    places = rows[order] * padded[1] + columns[order]
    rank = np.arange(len(order), dtype=np.int32)
    nearest = np.full(padded[0] * padded[1], -1, np.int32)
    for dy in range(-reach, reach + 1):
        for dx in range(-reach, reach + 1):
            if dx * dx + dy * dy <= radius * radius:
                moved = places + (dy * padded[1] + dx)
                nearer = rank > nearest[moved]
                nearest[moved[nearer]] = rank[nearer]  # of equal places numpy keeps the last
    shown = nearest.reshape(padded)[reach : reach + shape[0], reach : reach + shape[1]]
    front = shown.astype(np.int64)
    hit = front >= 0
    front[hit] = order[front[hit]]
    depth = np.full(shape, -np.inf)
    depth[hit] = nearness[front[hit]]
    return front, depth


def _shade(depth: FloatArray) -> FloatArray:
    """Factor (height, width) that darkens pixels behind their surroundings (eye-dome lighting).

    Slopes and hollows become darker, and edges in front of a distant background get an outline.
    """
    floor = np.min(depth, where=np.isfinite(depth), initial=np.inf)
    solid = np.maximum(depth, floor)  # the background counts as far away
    behind = np.zeros(depth.shape)
    for reach in _SHADE_REACHES:
        step = reach * _SUPERSAMPLING
        around = np.pad(solid, step, mode="edge")
        center = (slice(step, -step), slice(step, -step))
        for axis in (0, 1):
            for shift in (-step, step):
                slope = (np.roll(around, shift, axis)[center] - solid) / step
                behind += np.clip(slope, 0, 3)
    return np.asarray(np.exp(-_SHADE_STRENGTH * behind))


def _tile(images: Sequence[Image], columns: int) -> Image:
    height, width, _ = images[0].shape
    rows = -(-len(images) // columns)
    sheet = np.full((rows * height, columns * width, 3), BACKGROUND, np.uint8)
    for i, image in enumerate(images):
        top, left = i // columns * height, i % columns * width
        sheet[top : top + height, left : left + width] = image
    return sheet
