"""Make the pictures of a real scan in the README: a street corner before and after.

    python benchmarks/accuracy/make_street_pictures.py ../shared/data/ruemadame_28.npz

writes docs/images/street.png (a part of a wall, and a horizontal section through it) and
docs/images/street.webp (the part, with a line that swipes between before and after). The scan is a
part of Paris-rue-Madame and does not belong to this repository.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from PIL import Image

import pdflow
from pdflow.render import Panel, View, write_png
from pdflow.render.figure import compose
from pdflow.render.panels import draw_panels

IMAGES = Path(__file__).resolve().parents[2] / "docs" / "images"

LOW, HIGH = np.array([-np.inf, -116.5, 49.0]), np.array([np.inf, -112.5, 53.0])  # the part, in m
SECTION, THICKNESS = 51.5, 0.16  # height of the section, in m
SECTION_LOW = np.array([-np.inf, -118.0, -np.inf])
PANEL, FILM = (620, 440), (720, 520)
FRAMES, PERIOD = 48, 80  # and milliseconds of one
LINE = (11, 92, 173)


def part_of(clouds: list[np.ndarray]) -> list[Panel]:
    """The same rows of all clouds: those that lie in the part before denoising."""
    inside = ((clouds[0] >= LOW) & (clouds[0] <= HIGH)).all(1)
    return [Panel(points[inside]) for points in clouds]


def section_of(clouds: list[np.ndarray]) -> list[Panel]:
    first = clouds[0]
    inside = np.abs(first[:, 2] - SECTION) < THICKNESS / 2
    inside &= (first >= SECTION_LOW).all(1)
    return [Panel(points[inside]) for points in clouds]


def still(clouds: list[np.ndarray], path: Path) -> None:
    above = View(azimuth=90, elevation=89.9, field_of_view=0)
    images = draw_panels(part_of(clouds), size=PANEL, view=View(azimuth=70, elevation=25))
    images += draw_panels(section_of(clouds), size=PANEL, view=above, point_size=3.0, shaded=False)
    slab = f"section of {100 * THICKNESS:.0f} cm, from above: "
    labels = ["measured", "denoised", slab + "measured", slab + "denoised"]
    write_png(path, compose(images, labels, 2, None))


def film(clouds: list[np.ndarray], path: Path) -> None:
    """The part turns a little while the line goes there and back."""
    width = FILM[0]
    frames = []
    for turn in np.arange(FRAMES) / FRAMES * 2 * np.pi:
        view = View(azimuth=70 + 14 * np.sin(turn), elevation=25)
        before, after = draw_panels(part_of(clouds), size=FILM, view=view)
        edge = round(width * (0.5 + 0.42 * np.cos(turn)))
        frame = np.concatenate([before[:, :edge], after[:, edge:]], axis=1)
        frame[:, max(edge - 1, 0) : edge + 1] = LINE
        frames.append(Image.fromarray(frame))
    frames[0].save(
        path, save_all=True, append_images=frames[1:], duration=PERIOD, loop=0, quality=72, method=6
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("scan", type=Path)
    noisy = pdflow.read(parser.parse_args().scan)
    clean, report = pdflow.denoise(noisy, return_report=True)
    print(report)
    clouds = [noisy.points, clean.points]
    IMAGES.mkdir(exist_ok=True)
    for draw, name in ((still, "street.png"), (film, "street.webp")):
        draw(clouds, IMAGES / name)
        print(f"wrote {IMAGES / name}: {(IMAGES / name).stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
