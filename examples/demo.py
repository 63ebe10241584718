"""The main job on the shipped example; `make demo` runs it. Everything goes into demo/."""

from __future__ import annotations

import sys
from pathlib import Path

from pdflow import read
from pdflow.cli.main import main as pdflow

ROOT = Path(__file__).resolve().parents[1]
NOISY = ROOT / "examples" / "gear_noisy.ply"
FOLDER = ROOT / "demo"


def run(*words: str | Path) -> None:
    """Say a command line, then run it; the demo ends with the first one that fails."""
    line = [_short(word) for word in words]
    print(f"\n$ pdflow {' '.join(line)}", flush=True)
    code = pdflow([str(word) for word in words])
    if code:
        sys.exit(code)


def _short(word: str | Path) -> str:
    """A path as seen from the checkout, anything else as it is."""
    return str(word.relative_to(ROOT)) if isinstance(word, Path) else word


def main() -> None:
    """Look at the noisy example, convert it, and show that nothing was lost."""
    FOLDER.mkdir(exist_ok=True)
    cloud = FOLDER / "gear_noisy.laz"
    run("info", NOISY)
    run("convert", NOISY, cloud)
    run("info", cloud)
    kept = ", ".join(read(cloud).attributes)
    print(f"\nWritten: {_short(cloud)}, with its attributes ({kept}).")
    print("Open it with any viewer for LAZ files, such as CloudCompare.")


if __name__ == "__main__":
    main()
