"""Install the torch that suits this machine, and say which one it is; `make` runs it.

On Linux, torch from PyPI brings gigabytes of CUDA libraries. A machine without an NVIDIA GPU gets
the CPU build of PyTorch's own index instead. An index that offers a CPU build itself is used as it
is, and so is a torch that is already there.

    .venv/bin/python scripts/install_torch.py -c constraints.txt
"""

from __future__ import annotations

import importlib.metadata
import json
import shutil
import subprocess
import sys
from collections.abc import Sequence

CPU_INDEX = "https://download.pytorch.org/whl/cpu"
PIP = (sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--quiet")


def needs_cpu_index(requirements: Sequence[str], has_gpu: bool) -> bool:
    """Whether a torch with these requirements brings CUDA to a machine that cannot use it."""
    return not has_gpu and any(name.startswith(("nvidia-", "cuda-")) for name in requirements)


def offered(options: Sequence[str]) -> tuple[str, list[str]]:
    """Version and requirements of the torch that pip would install; nothing is installed.

    A pip before 22.2 cannot tell; what it takes is then called "as pip chooses".
    """
    command = [*PIP, "--dry-run", "--ignore-installed", "--no-deps", "--report", "-"]
    found = subprocess.run([*command, *options, "torch"], capture_output=True, text=True)
    if found.returncode:
        return "as pip chooses", []
    metadata = json.loads(found.stdout)["install"][0]["metadata"]
    return metadata["version"], metadata.get("requires_dist", [])


def main(options: Sequence[str]) -> None:
    """Install torch with pip's `options`, unless it is there."""
    try:
        print(f"torch {importlib.metadata.version('torch')} is installed")
        return
    except importlib.metadata.PackageNotFoundError:
        version, requirements = offered(options)
    has_gpu = shutil.which("nvidia-smi") is not None
    index: list[str] = []
    if needs_cpu_index(requirements, has_gpu):
        index = ["--index-url", CPU_INDEX]
        print(f"torch {version}: no NVIDIA GPU here, so its CPU build from {CPU_INDEX}")
    else:
        print(f"torch {version}: {'an NVIDIA GPU is here' if has_gpu else 'for a CPU'}")
    sys.stdout.flush()
    sys.exit(subprocess.call([*PIP, *index, *options, "torch"]))


if __name__ == "__main__":
    main(sys.argv[1:])
