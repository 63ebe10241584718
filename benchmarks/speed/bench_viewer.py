"""Size, load and frame time of two clouds in one headless browser: pdflow, viser, plotly.

    pip install -e '.[bench]'
    python benchmarks/speed/bench_viewer.py [--points 1000000] [--only pdflow,viser,plotly]

Every tool shows the same two clouds (a bumpy sphere, with and without noise, coloured). The clock
starts when the browser is sent to the page and stops when a screenshot shows the clouds. Frames are
counted while the mouse drags for some seconds. A headless Chromium draws in software here, so only
compare numbers of one run. pdflow draws fewer points while the camera moves, the others draw all.
"""

from __future__ import annotations

import argparse
import base64
import importlib.util
import io
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from pdflow import PointCloud
from pdflow.provenance import describe_machine, load_average, source_version
from pdflow.viewer.scene import build_scene
from pdflow.viewer.show import Page

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 180.0
DRAG = 4.0
COLORS = 1000  # that the middle of the picture has when the clouds are there


def make_clouds(count: int) -> list[PointCloud]:
    random = np.random.default_rng(0)
    direction = random.normal(size=(count, 3))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    radius = 1 + 0.1 * np.prod(np.sin(6 * direction), axis=1, keepdims=True)
    colors = np.rint(255 * (direction + 1) / 2).astype(np.uint8)
    clean = radius * direction
    noisy = clean + 0.01 * random.normal(size=clean.shape)
    return [PointCloud(points, {"colors": colors}) for points in (noisy, clean)]


def beside(number: int) -> np.ndarray:
    """Where a cloud goes in tools that cannot compare two at one place."""
    return np.array([2.4 * number, 0, 0])


@contextmanager
def shown_by_pdflow(clouds: list[PointCloud], folder: Path) -> Iterator[tuple[str, int]]:
    path = folder / "pdflow.html"
    names = ("noisy", "clean")
    Page(build_scene(list(zip(names, clouds, strict=True)), None, len(clouds[0]))).save(path)
    yield path.as_uri(), path.stat().st_size


@contextmanager
def shown_by_plotly(clouds: list[PointCloud], folder: Path) -> Iterator[tuple[str, int]]:
    from plotly import graph_objects

    figure = graph_objects.Figure()
    for shift, cloud in enumerate(clouds):
        x, y, z = (cloud.points + beside(shift)).astype(np.float32).T
        shades = cloud.attributes["colors"].astype(np.float32).mean(1)
        figure.add_scatter3d(x=x, y=y, z=z, mode="markers", marker={"size": 1, "color": shades})
    path = folder / "plotly.html"
    figure.write_html(path, include_plotlyjs=True)
    yield path.as_uri(), path.stat().st_size


@contextmanager
def shown_by_viser(clouds: list[PointCloud], folder: Path) -> Iterator[tuple[str, int]]:
    import viser

    server = viser.ViserServer(host="127.0.0.1", port=0, verbose=False)
    try:
        for shift, cloud in enumerate(clouds):
            points = (cloud.points + beside(shift)).astype(np.float32)
            server.scene.add_point_cloud(
                f"/{shift}", points, cloud.attributes["colors"], point_size=0.005
            )
        size = len(server.get_scene_serializer().serialize())
        yield f"http://127.0.0.1:{server.get_port()}", size
    finally:
        server.stop()


TOOLS = {"pdflow": shown_by_pdflow, "viser": shown_by_viser, "plotly": shown_by_plotly}


def screenshot(browser: Any) -> np.ndarray:
    data = base64.b64decode(browser.call("Page.captureScreenshot")["data"])
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB")).astype(int)


def load(browser: Any, url: str) -> float:
    """Seconds until the middle of the picture shows points; infinite if it takes too long."""
    begun = time.perf_counter()
    browser.call("Page.navigate", url=url)
    while time.perf_counter() - begun < PATIENCE:
        with suppress(AssertionError):  # the page is being exchanged
            middle = screenshot(browser)[200:500, 200:700]
            if len(np.unique(middle.reshape(-1, 3), axis=0)) > COLORS:
                return time.perf_counter() - begun
        time.sleep(0.1)
    return np.inf


COUNT = """
window.frames_seen = 0;
(function count() { window.frames_seen++; requestAnimationFrame(count); })();
"""


def frame_time(browser: Any) -> float:
    """Seconds of a frame while the mouse drags the view."""
    browser.evaluate(COUNT)
    browser.mouse("mousePressed", 300, 350, clickCount=1)
    begun = time.perf_counter()
    before = browser.evaluate("window.frames_seen")
    step = 0
    while time.perf_counter() - begun < DRAG:
        step += 1
        browser.mouse("mouseMoved", 300 + step % 200, 350 + step % 50)
    after = browser.evaluate("window.frames_seen")
    elapsed = time.perf_counter() - begun
    browser.mouse("mouseReleased", 300, 350, clickCount=1)
    return elapsed / max(after - before, 1)


def browser_of_tests() -> type:
    """The browser of the tests: Debian's Chromium, driven through its own protocol."""
    spec = importlib.util.spec_from_file_location("conftest", ROOT / "tests" / "conftest.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["conftest"] = module
    spec.loader.exec_module(module)
    module.PATIENCE = PATIENCE
    return module.Browser


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--points", type=int, default=1_000_000)
    parser.add_argument("--only", default=",".join(TOOLS))
    options = parser.parse_args()
    clouds = make_clouds(options.points)
    browser_class = browser_of_tests()
    print(f"2 x {options.points:,} points, commit {source_version()}, one run each")
    print(f"{describe_machine()}, load {load_average():.1f}")
    print(f"{'tool':8} {'make (s)':>9} {'size (MB)':>10} {'load (s)':>9} {'frame (ms)':>11}")
    for name in options.only.split(","):
        with tempfile.TemporaryDirectory() as folder:
            begun = time.perf_counter()
            try:
                with redirect_stdout(sys.stderr), TOOLS[name](clouds, Path(folder)) as (url, size):
                    made = time.perf_counter() - begun
                    profile = Path(folder) / "profile"
                    profile.mkdir()
                    browser = browser_class(profile)
                    try:
                        loaded = load(browser, url)
                        frame = frame_time(browser) if np.isfinite(loaded) else np.inf
                    finally:
                        browser.close()
            except ImportError as error:
                print(f"{name:8} not installed ({error.name})")
                continue
            except TimeoutError:
                loaded = frame = np.inf
        shown = [f"{v:{w}.{d}f}" if np.isfinite(v) else f"{'-':>{w}}"
                 for v, w, d in ((loaded, 9, 1), (1000 * frame, 11, 0))]  # fmt: skip
        print(f"{name:8} {made:9.1f} {size / 1e6:10.1f} {' '.join(shown)}", flush=True)


if __name__ == "__main__":
    main()
