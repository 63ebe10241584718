"""Where weights come from: everything needed to make them again."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import torch

import pdflow
from pdflow.train.loop import Trainer


def provenance(trainer: Trainer, data_sha256: str) -> dict[str, Any]:
    """What the header of a weight file says of the run that made it."""
    recipe = trainer.recipe
    return {
        "recipe": recipe.as_dict(),
        "seed": recipe.optim.seed,
        "data_sha256": data_sha256,
        "init_sha256": trainer.init_sha256,
        "commit": source_version(),
        "steps": trainer.step_count,
        "skipped_steps": int(trainer.skipped),
        "patches": trainer.step_count * recipe.optim.batch,
        "share": trainer.share,
        "minutes": trainer.seconds / 60,
        "device": device_name(trainer.device),
        "processes": trainer.workers.count,
        "torch": torch.__version__,
    }


def source_version() -> str:
    """`git describe` of the source tree, or the version of the installed package."""
    package = Path(pdflow.__file__).parent
    words = ["git", "-C", str(package), "describe", "--always", "--dirty", "--abbrev=40"]
    version = f"pdflow {pdflow.__version__}"
    if not (package.parents[1] / ".git").exists():
        return version
    try:
        found = subprocess.run(words, capture_output=True, text=True, check=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return version
    return found.stdout.strip()


def device_name(device: torch.device) -> str:
    """The GPU's name, or the number of threads on a CPU."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"cpu, {torch.get_num_threads()} threads"
