"""The main job on the shipped example; `make demo` runs it. Everything goes into demo/."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pdflow import read
from pdflow.cli.main import main as pdflow

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


def main() -> None:
    """Look at the noisy example, convert it, and show that nothing was lost."""
    os.chdir(ROOT)
    FOLDER.mkdir(exist_ok=True)
    cloud = FOLDER / "gear_noisy.laz"
    run("info", NOISY)
    run("convert", NOISY, cloud)
    run("info", cloud)
    kept = ", ".join(read(cloud).attributes)
    print(f"\nLook at {ROOT / cloud}: the noisy gear, whose points kept their attributes ({kept}).")
    print("Any viewer for LAZ files shows it, such as CloudCompare.")


if __name__ == "__main__":
    main()
