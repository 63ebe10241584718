"""Figures with labels: clouds whole and as a section, one colour bar for all.

The clouds are drawn by `panels`; only letters come from Pillow. matplotlib has letters, too, but
needs Pillow itself and many packages more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdflow.cloud import PointCloud
from pdflow.errors import PdflowError
from pdflow.lazy import require
from pdflow.render.files import Image, PathLike, write_pdf, write_png
from pdflow.render.panels import BACKGROUND, Panel, View, color_map, draw_panels

SUFFIXES = {".png": write_png, ".pdf": write_pdf}

_PANEL = (520, 360)
_INK = (40, 46, 52)
_LETTERS = 22  # pixels
_MARGIN = 16
_BAR = (360, 18)
_SLAB = (0.02, 0.1)  # thinnest and thickest section, as shares of the extent that it cuts
_SLAB_POINTS = 1500  # points that a section should show
_SECTION_DOT = 3.5  # pixels


@dataclass(frozen=True)
class Shown:
    """A cloud in a figure: its label, points (M, 3), and values (M,), colours (M, 3) or None."""

    label: str
    points: Any
    color: Any = None


@dataclass(frozen=True)
class Legend:
    """What values mean: their name, unit, and the value of the last colour; the first is 0."""

    name: str
    unit: str
    highest: float


def save_comparison(
    path: PathLike,
    before: PointCloud,
    after: PointCloud,
    moved: NDArray[np.floating],
    legend: Legend,
) -> None:
    """Write before, after, and after coloured by how far each point moved; below, a section.

    moved   (M,) of the points of `after`
    legend  see `legend_of`
    """
    clouds = [
        Shown("before", before.points, before.attributes.get("colors")),
        Shown("after", after.points, after.attributes.get("colors")),
        Shown(f"after, by {legend.name}", after.points, moved),
    ]
    save_figure(path, clouds, legend)


def save_figure(
    path: PathLike,
    clouds: Sequence[Shown],
    legend: Legend | None,
    *,
    sections: bool = True,
    columns: int = 4,
    size: tuple[int, int] = _PANEL,
    view: View | None = None,
) -> None:
    """Write clouds side by side as PNG or PDF, atomically.

    sections  True: all clouds lie in one space; a second row shows a slab through their middle.
              False: each cloud fills its own panel, at most `columns` of them in a row
    size      of a panel, in pixels
    view      direction from which whole clouds are seen
    """
    write = SUFFIXES.get(Path(path).suffix.lower())
    if write is None:
        raise PdflowError(
            f"{path}: figures are PNG or PDF: choose a name that ends in .png or .pdf."
        )
    limits = (0.0, legend.highest if legend else 1.0)
    labels = [cloud.label for cloud in clouds]
    panels = [Panel(cloud.points, cloud.color) for cloud in clouds]
    images = draw_panels(panels, size=size, view=view, value_range=limits, same_frame=sections)
    if sections:
        slab, across = _section(np.asarray(clouds[0].points))
        images += draw_panels(
            [_cut(cloud, slab) for cloud in clouds],
            size=size,
            view=across,
            value_range=limits,
            point_size=_SECTION_DOT,
            shaded=False,
        )
        labels += [f"section: {label}" for label in labels]
    columns = len(clouds) if sections else min(columns, len(clouds))
    write(path, compose(images, labels, columns, legend))


def legend_of(name: str, unit: str, values: Sequence[NDArray[np.floating]]) -> Legend:
    """The legend of values (M,) of some clouds; the last colour is their 99 % quantile."""
    highest = float(np.quantile(np.concatenate(list(values)), 0.99))
    return Legend(name, unit, highest if highest > 0 else 1.0)


@dataclass(frozen=True)
class _Slab:
    axis: int
    low: float
    high: float


def _section(points: NDArray[np.float64]) -> tuple[_Slab, View]:
    """A vertical slab along the longer side of a cloud, and the view onto it.

    Its thickness follows the number of points: a sparse cloud needs a thick slab.
    """
    low, high = np.quantile(points, [0.001, 0.999], axis=0)
    axis = int(np.argmin((high - low)[:2]))
    extent = float(high[axis] - low[axis]) or 1.0
    share = float(np.clip(_SLAB_POINTS / len(points), *_SLAB))
    middle = float(np.median(points[:, axis]))
    slab = _Slab(axis, middle - share * extent / 2, middle + share * extent / 2)
    return slab, View(azimuth=90.0 if axis == 0 else 0.0, elevation=0.0, field_of_view=0.0)


def _cut(cloud: Shown, slab: _Slab) -> Panel:
    points = np.asarray(cloud.points)
    across = points[:, slab.axis]
    inside = (across >= slab.low) & (across <= slab.high)
    if not inside.any():  # of a cloud with a hole in the middle
        inside[np.abs(across - (slab.low + slab.high) / 2).argmin()] = True
    color = None if cloud.color is None else np.asarray(cloud.color)[inside]
    return Panel(points[inside], color)


def compose(
    images: Sequence[Image], labels: Sequence[str], columns: int, legend: Legend | None
) -> Image:
    """One picture of panels of equal size with their labels, and the colour bar below them."""
    pillow = require("PIL.Image", extra="plot", purpose="A figure with labels")
    draw_module = require("PIL.ImageDraw", extra="plot", purpose="A figure with labels")
    font = require("PIL.ImageFont", extra="plot", purpose="A figure with labels").load_default(
        _LETTERS
    )
    height, width, _ = images[0].shape
    head = _LETTERS + _MARGIN
    rows = -(-len(images) // columns)
    foot = _BAR[1] + 2 * _LETTERS + 2 * _MARGIN if legend else 0
    sheet = pillow.new("RGB", (columns * width, rows * (height + head) + foot), BACKGROUND)
    draw = draw_module.Draw(sheet)
    for number, (image, label) in enumerate(zip(images, labels, strict=True)):
        left, top = number % columns * width, number // columns * (height + head)
        draw.text((left + _MARGIN, top + _MARGIN // 2), label, fill=_INK, font=font)
        sheet.paste(pillow.fromarray(image), (left, top + head))
    if legend:
        left = (columns * width - _BAR[0]) // 2
        top = rows * (height + head) + _MARGIN
        title = f"{legend.name} ({legend.unit})" if legend.unit else legend.name
        draw.text((left - _MARGIN, top - 4), title, fill=_INK, font=font, anchor="ra")
        ramp = color_map(np.linspace(0, 1, _BAR[0]), 0, 1)
        sheet.paste(pillow.fromarray(np.tile(ramp, (_BAR[1], 1, 1))), (left, top))
        for share in (0.0, 0.5, 1.0):
            place = (left + share * _BAR[0], top + _BAR[1] + 4)
            draw.text(place, f"{share * legend.highest:.3g}", fill=_INK, font=font, anchor="ma")
    return np.asarray(sheet)
