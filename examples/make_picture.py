"""Make the picture in the README from the shipped example: noisy cloud left, denoised right.

python examples/make_picture.py        # writes docs/images/gear.png
"""

from __future__ import annotations

from pathlib import Path

from pdflow import denoise, read
from pdflow.render import Panel, View, render_panels

ROOT = Path(__file__).resolve().parents[1]
PICTURE = ROOT / "docs" / "images" / "gear.png"


def main() -> None:
    """Draw both clouds in their own colours, from the same place."""
    noisy = read(ROOT / "examples" / "gear_noisy.ply")
    PICTURE.parent.mkdir(exist_ok=True)
    panels = [Panel(cloud.points, cloud.attributes["colors"]) for cloud in (noisy, denoise(noisy))]
    render_panels(panels, PICTURE, size=(400, 340), view=View(azimuth=20, elevation=40))
    print(f"wrote {PICTURE}")


if __name__ == "__main__":
    main()
