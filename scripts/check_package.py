"""Check what users install: wheel and sdist, in a clean environment, outside the clone.

Builds both, lets twine check them, installs the wheel with its core dependencies only into a new
environment, and runs the demo there from another folder. With `--link` the environment takes the
dependencies that are installed here instead of fetching torch again, which saves a minute and a
gigabyte; the package itself still comes from the wheel.

    .venv/bin/python scripts/check_package.py --link
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
import tempfile
import venv
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ("gear.off", "gear.ply", "gear_noisy.ply", "demo.py")


def run(*words: str | Path, cwd: Path = ROOT) -> None:
    """Run a command; its failure is ours."""
    line = [str(word) for word in words]
    print(f"$ {' '.join(line)}", flush=True)
    if code := subprocess.call(line, cwd=cwd):
        sys.exit(code)


def build(folder: Path) -> Path:
    """Wheel and sdist in a folder, checked by twine; the path of the wheel."""
    run(sys.executable, "-m", "build", "--outdir", folder)
    files = sorted(folder.iterdir())
    run(sys.executable, "-m", "twine", "check", "--strict", *files)
    (wheel,) = (file for file in files if file.suffix == ".whl")
    return wheel


def install(wheel: Path, folder: Path, link: bool) -> Path:
    """A new environment with the wheel; the path of its Python."""
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    pip = (python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    if not link:
        run(python, ROOT / "scripts" / "install_torch.py", "-c", ROOT / "constraints.txt")
        run(*pip, "-c", ROOT / "constraints.txt", wheel)
        return python
    run(*pip, "--no-deps", wheel)
    packages = next((folder / "lib").glob("python*/site-packages"))
    # Only packages, not the .pth file of an editable install, which would hide a broken wheel.
    (packages / "here.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python


def demo(python: Path, folder: Path) -> None:
    """The demo on copies of its files, so that nothing of the clone is in reach."""
    (folder / "examples").mkdir()
    for name in EXAMPLES:
        shutil.copy(ROOT / "examples" / name, folder / "examples" / name)
    run(python, "-c", f"import pdflow; assert {str(ROOT)!r} not in pdflow.__file__", cwd=folder)
    run(python, folder / "examples" / "demo.py", cwd=folder)
    if not (folder / "demo" / "gear_clean.ply").is_file():
        sys.exit("the demo left no result")


def main(words: Sequence[str]) -> None:
    """Build, check, install, run."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wheel = build(folder / "dist")
        demo(install(wheel, folder / "venv", "--link" in words), folder)
    print("the package works on its own")


if __name__ == "__main__":
    main(sys.argv[1:])
