"""Pin everything that the tests run with, each file by its SHA-256.

    .venv/bin/python scripts/lock.py write    # from what is installed here
    .venv/bin/python scripts/lock.py check    # whether everything installed is in it; for releases
    .venv/bin/python scripts/lock.py install  # what `make` does before anything else

The lock is for one platform (see PLATFORM); elsewhere `install` does nothing, and versions come
from constraints.txt. torch is not in it: scripts/install_torch.py takes the build that suits the
machine, from different places. What pyproject.toml asks for beyond the lock is installed
afterwards without a hash, so that a new dependency works at once; a release refuses it.
"""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

LOCK = Path(__file__).resolve().parents[1] / "requirements.lock"
PLATFORM = ("Linux", "x86_64", "cpython", "3.11")
ELSEWHERE = ("pdflow", "torch", "pip")
"""Packages that are not locked."""

PIP = (sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--quiet")


def here() -> tuple[str, str, str, str]:
    """System, processor, implementation and version of this Python."""
    version = ".".join(platform.python_version_tuple()[:2])
    return platform.system(), platform.machine(), sys.implementation.name, version


def needed() -> set[str]:
    """Name and version of everything that the tests need, as it is installed."""
    from dependencies import closure

    return {f"{p.name}=={p.version}" for n, p in closure({"dev"}).items() if n not in ELSEWHERE}


def locked() -> dict[str, str]:
    """Name and version -> option with the hash."""
    lines = LOCK.read_text().splitlines() if LOCK.exists() else []
    return dict(line.split(" ", 1) for line in lines if not line.startswith("#"))


def write() -> None:
    """Write the lock; pip fetches what is new in it, to know its hash."""
    if here() != PLATFORM:
        sys.exit(f"{LOCK.name} is for {' '.join(PLATFORM)}: write it there.")
    pins, known = needed(), locked()
    entries = {pin: known[pin] for pin in pins & known.keys()}
    if new := sorted(pins - known.keys()):
        command = [*PIP, "--dry-run", "--ignore-installed", "--no-deps", "--report", "-", *new]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            sys.exit(done.stderr)
        for pin, found in zip(new, json.loads(done.stdout)["install"], strict=True):
            digest = found["download_info"]["archive_info"]["hashes"]["sha256"]
            entries[pin] = f"--hash=sha256:{digest}"
    lines = [f"{pin} {option}" for pin, option in entries.items()]
    about = f"# Written by scripts/lock.py for {' '.join(PLATFORM)}; do not edit."
    LOCK.write_text("\n".join([about, *sorted(lines, key=str.lower)]) + "\n")
    print(f"{LOCK.name}: {len(lines)} packages, {len(new)} of them new")


def check() -> None:
    """End with a sentence if something is not locked as it is installed."""
    if here() == PLATFORM and (missing := sorted(needed() - locked().keys())):
        sys.exit(f"not in {LOCK.name}: {', '.join(missing)}; run scripts/lock.py write.")


def install() -> None:
    """Install the lock, if it is for this platform. A file with another hash ends it."""
    if here() != PLATFORM:
        print(f"{LOCK.name} is for {' '.join(PLATFORM)}: versions come from constraints.txt here")
        return
    sys.exit(subprocess.call([*PIP, "--require-hashes", "--no-deps", "-r", str(LOCK)]))


def main(words: Sequence[str]) -> None:
    """Write, check or install."""
    actions = {"write": write, "check": check, "install": install}
    if len(words) != 1 or words[0] not in actions:
        sys.exit(f"usage: lock.py {' | '.join(actions)}")
    actions[words[0]]()


if __name__ == "__main__":
    main(sys.argv[1:])
