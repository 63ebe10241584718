"""What a run keeps: checkpoints that resume to the same bits, and provenance."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pdflow.errors import PdflowError
from pdflow.io.damage import reason
from pdflow.provenance import source_version
from pdflow.train.loop import Trainer
from pdflow.train.recipe import Recipe
from pdflow.weights import read_tensors, write_tensors

TRAINING, CHECKSUM = "training", "sha256"
"""Entries of the header: the state beside the tensors as JSON, and a checksum of both."""


def save_checkpoint(trainer: Trainer, path: Path) -> None:
    """Write everything that the next step depends on, atomically."""
    tensors = {name: value.detach().cpu().clone() for name, value in trainer.tensors().items()}
    tensors["random"] = torch.get_rng_state()
    if trainer.device.type == "cuda":
        tensors["random.cuda"] = torch.cuda.get_rng_state(trainer.device)
    state = {
        "step": trainer.step_count,
        "share": trainer.share,
        "seconds": trainer.seconds,
        "schedule": trainer.schedule.state(),
        "init_sha256": trainer.init_sha256,
        "recipe": trainer.recipe.as_dict(),
    }
    text = json.dumps(state)
    header = {TRAINING: text, CHECKSUM: _checksum(tensors, text)}
    write_tensors(path, tensors, header)


def resume(trainer: Trainer, path: Path) -> None:
    """Resume from a checkpoint of the same recipe."""
    tensors, header = read_tensors(path)
    if TRAINING not in header:
        raise PdflowError(f"{path} is not a checkpoint of a training run: choose another folder.")
    # Checkpoints of before have no checksum and no other entry either.
    whole = header.keys() == {TRAINING} or header.get(CHECKSUM) == _checksum(
        tensors, header[TRAINING]
    )
    try:
        if not whole:
            raise ValueError("its checksum does not fit")
        _restore(trainer, tensors, json.loads(header[TRAINING]), path)
    except (AttributeError, KeyError, TypeError, ValueError, RuntimeError) as error:
        raise PdflowError(
            f"{path} is damaged ({reason(error)}): delete it to begin again, or restore a copy."
        ) from error


def _restore(
    trainer: Trainer, tensors: dict[str, Tensor], state: dict[str, Any], path: Path
) -> None:
    _check_recipe(state["recipe"], trainer.recipe, path)
    live = trainer.tensors()
    for name, value in live.items():
        if name not in tensors or tensors[name].shape != value.shape:
            raise PdflowError(f"{path} lacks {name}: it was made by another version of pdflow.")
        value.detach().copy_(tensors[name])
    trainer.step_count, trainer.share = state["step"], state["share"]
    trainer.seconds = state["seconds"]
    trainer.init_sha256 = state["init_sha256"]
    trainer.schedule.load(state["schedule"])
    torch.set_rng_state(tensors["random"])
    if "random.cuda" in tensors and trainer.device.type == "cuda":
        torch.cuda.set_rng_state(tensors["random.cuda"], trainer.device)


def _checksum(tensors: Mapping[str, Tensor], text: str) -> str:
    """SHA-256 of the tensors with their names, types and shapes, and of the text beside them."""
    digest = hashlib.sha256(text.encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _check_recipe(saved: dict[str, Any], recipe: Recipe, path: Path) -> None:
    """Refuse a recipe that would train something else; steps and validation may differ."""
    now = json.loads(json.dumps(recipe.as_dict()))
    for section in ("model", "inference", "data", "loss", "optim"):
        for name, value in now[section].items():
            before = saved.get(section, {}).get(name, value)
            if before != value and (section, name) != ("optim", "steps"):
                raise PdflowError(
                    f"{path} was trained with [{section}] {name} = {before}, but the recipe says "
                    f"{value}: choose another output folder, or restore the recipe."
                )


def provenance(trainer: Trainer, data_sha256: str) -> dict[str, Any]:
    """The header of a weight file: everything needed to repeat the run that made it."""
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
