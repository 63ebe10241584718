"""Where and from what a figure was measured."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path


def describe_machine() -> str:
    """Processor, cores, system and Python in one line."""
    python = platform.python_version()
    return f"{cpu_name()}, {cores()} cores, {platform.system()}, Python {python}"


def cpu_name() -> str:
    """The model of the processor."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def load() -> float:
    """Processes that wanted a core in the last minute, on average; 0 where it cannot be told."""
    return round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else 0.0


def commit() -> str:
    """The commit of the checkout, marked where it has changes.

    The variable PDFLOW_COMMIT tells it where a copy runs without its history.
    """
    if told := os.environ.get("PDFLOW_COMMIT"):
        return told
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return "unknown"
    return done.stdout.strip() or "unknown"
