"""Where a result comes from: the version of the source, and the machine."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path

from pdflow import __version__
from pdflow.parallel import available_cores

PACKAGE = Path(__file__).parent


def source_version(digits: int = 7) -> str:
    """`git describe` of the checkout, marked if it has changes; else the package's version.

    digits  how many of the commit's hash to give, at least; git adds some if these are ambiguous

    The variable PDFLOW_COMMIT overrides it, for copies that run without their history.
    """
    if commit := os.environ.get("PDFLOW_COMMIT"):
        return commit
    version = f"pdflow {__version__}"
    # An installed package may lie inside the checkout of something else.
    if not (PACKAGE.parents[1] / ".git").exists():
        return version
    command = ["git", "-C", str(PACKAGE), "describe", "--always", "--dirty", f"--abbrev={digits}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return version
    return done.stdout.strip()


def describe_machine() -> str:
    """Processor, cores, system and Python in one line."""
    python = platform.python_version()
    return f"{cpu_name()}, {available_cores()} cores, {platform.system()}, Python {python}"


def cpu_name() -> str:
    """The model of the processor."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def load_average() -> float:
    """Mean number of processes that wanted a core in the last minute; 0 where none is known."""
    return round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else 0.0
