"""The viewer in Python: a page as an object that notebooks show and that can be saved."""

from __future__ import annotations

import html
import os
from pathlib import Path
from typing import Any

from pdflow.cloud import PointCloud
from pdflow.io.atomic import atomic_path
from pdflow.mesh import TriangleMesh
from pdflow.metrics.inputs import as_points
from pdflow.viewer.document import document
from pdflow.viewer.pack import pack
from pdflow.viewer.scene import MOST_POINTS, Scene, build_scene

_HEIGHT = 600


class Page:
    """A page with one or several clouds; the last expression of a notebook's cell shows it."""

    def __init__(self, scene: Scene) -> None:
        self.title = " and ".join(cloud.name for cloud in scene.clouds)
        self.data = pack(scene)

    def html(self) -> str:
        """The whole page with its data, for a file or a frame."""
        return document(self.title, self.data)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page as one file that needs nothing else, atomically."""
        with atomic_path(Path(path)) as temporary:
            temporary.write_text(self.html(), encoding="utf-8")

    def _repr_html_(self) -> str:
        # The sandbox keeps the page's script away from the notebook around it.
        return (
            f'<iframe title="{html.escape(self.title)}" width="100%" height="{_HEIGHT}" '
            'sandbox="allow-scripts" allow="fullscreen" frameborder="0" '
            f'srcdoc="{html.escape(self.html())}"></iframe>'
        )

    def __repr__(self) -> str:
        return f"<pdflow page of {self.title}, {len(self.data) / 1e6:.1f} MB>"


def view(
    before: Any, after: Any = None, clean: Any = None, *, most_points: int = MOST_POINTS
) -> Page:
    """Show a cloud, or two under one camera.

    before, after  PointCloud, (M, 3) array or tensor, or what `Denoiser` returns
    clean          cloud or TriangleMesh that errors are measured against
    most_points    clouds with more points are thinned

    In a notebook the result is shown; `view(noisy, denoised).save("page.html")` writes a file.

    >>> page = view([[0, 0, 0], [1, 0, 0.1]], [[0, 0, 0], [1, 0, 0]])
    >>> page.title, page.html()[:15]
    ('before and after', '<!doctype html>')
    """
    clouds = [("before" if after is not None else "cloud", _cloud(before, "The cloud"))]
    if after is not None:
        clouds.append(("after", _cloud(after, "The second cloud")))
    if clean is not None and not isinstance(clean, TriangleMesh):
        clean = as_points(clean, "The clean cloud")
    return Page(build_scene(clouds, clean, most_points))


def _cloud(values: Any, name: str) -> PointCloud:
    values = getattr(values, "cloud", values)  # of a Denoised
    return values if isinstance(values, PointCloud) else PointCloud(as_points(values, name))
