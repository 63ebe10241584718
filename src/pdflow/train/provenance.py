"""Where weights come from: everything needed to make them again."""

from __future__ import annotations

from typing import Any

import torch

from pdflow.provenance import source_version
from pdflow.train.loop import Trainer


def provenance(trainer: Trainer, data_sha256: str) -> dict[str, Any]:
    """What the header of a weight file says of the run that made it."""
    recipe = trainer.recipe
    return {
        "recipe": recipe.as_dict(),
        "seed": recipe.optim.seed,
        "data_sha256": data_sha256,
        "init_sha256": trainer.init_sha256,
        "commit": source_version(digits=40),
        "steps": trainer.step_count,
        "skipped_steps": int(trainer.skipped),
        "patches": trainer.step_count * recipe.optim.batch,
        "share": trainer.share,
        "minutes": trainer.seconds / 60,
        "device": device_name(trainer.device),
        "processes": trainer.workers.count,
        "torch": torch.__version__,
    }


def device_name(device: torch.device) -> str:
    """The GPU's name, or the number of threads on a CPU."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"cpu, {torch.get_num_threads()} threads"
