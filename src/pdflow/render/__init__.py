"""Pictures of point clouds without a display.

    render(cloud.points, errors, "errors.png")
    render_panels([Panel(noisy), Panel(clean)], "before_after.png")

`panels` draws clouds, `figure` puts labels, sections and a colour bar around them, `files` writes
PNG and PDF.
"""

from pdflow.render.files import write_png
from pdflow.render.panels import BACKGROUND, Panel, View, color_map, render, render_panels

__all__ = ["BACKGROUND", "Panel", "View", "color_map", "render", "render_panels", "write_png"]
