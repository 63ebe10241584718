"""The main job on the shipped example; `make demo` runs it. Everything goes into demo/."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pdflow import read
from pdflow.cli.main import main as pdflow
from pdflow.render import Panel, View, render_panels

ROOT = Path(__file__).resolve().parents[1]
NOISY = Path("examples/gear_noisy.ply")
FOLDER = Path("demo")


def run(*words: str | Path) -> None:
    """Say a command line, then run it; the demo ends with the first one that fails."""
    line = [str(word) for word in words]
    print(f"\n$ pdflow {' '.join(line)}", flush=True)
    code = pdflow(line)
    if code:
        sys.exit(code)


def draw(clean: Path, picture: Path) -> None:
    """Before and after, side by side, from the same place."""
    panels = [Panel(c.points, c.attributes["colors"]) for c in (read(NOISY), read(clean))]
    render_panels(panels, picture, size=(400, 340), view=View(azimuth=20, elevation=40))


def main() -> None:
    """Denoise the shipped example, measure it against the truth, draw it, make a page of it."""
    os.chdir(ROOT)
    FOLDER.mkdir(exist_ok=True)
    clean, picture = FOLDER / "gear_clean.ply", FOLDER / "before_after.png"
    page = FOLDER / "before_after.html"
    run("info", NOISY)
    run("denoise", NOISY, "-o", clean)
    truth = ("--clean", "examples/gear.ply", "--mesh", "examples/gear.off")
    run("evaluate", NOISY, *truth)
    run("evaluate", clean, *truth, "--csv", FOLDER / "metrics.csv")
    draw(clean, picture)
    run("view", NOISY, clean, "--clean", "examples/gear.ply", "-o", page)
    print(f"\nLook at {ROOT / clean}: the gear without its noise, colours and all.")
    print(f"Before and after: {ROOT / picture}; metrics: {ROOT / FOLDER / 'metrics.csv'}")
    print(f"Open this page in a browser to compare them: {(ROOT / page).as_uri()}")


if __name__ == "__main__":
    main()
