"""What is fuzzed: every reader of pdflow, each with the suffix and the judge of its files.

A kind is a format, or a variant of one with code of its own (ASCII, big-endian, compressed).
"""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

KINDS = {
    "ply": ".ply",
    "ply-ascii": ".ply",
    "ply-big-endian": ".ply",
    "xyz": ".xyz",
    "csv": ".csv",
    "pts": ".pts",
    "pcd": ".pcd",
    "pcd-ascii": ".pcd",
    "pcd-compressed": ".pcd",
    "las": ".las",
    "laz": ".laz",
    "e57": ".e57",
    "npy": ".npy",
    "npz": ".npz",
    "off": ".off",
    "obj": ".obj",
    "stl": ".stl",
    "glb": ".glb",
    "gltf": ".gltf",
    "weights": ".safetensors",
    "checkpoint": ".safetensors",
    "recipe": ".toml",
}
"""Kind -> suffix of its files."""

CORPUS = Path(__file__).parent / "corpus"

CLOUD_TARGETS = ("ply", "laz", "e57", "npz", "pcd", "csv", "las", "pts", "xyz", "npy")
MESH_TARGETS = ("off", "obj", "stl", "glb", "ply")
MESHES = ("off", "obj", "stl", "glb", "gltf")

VALID, SENTENCE = "valid", "sentence"
"""The two outcomes that are allowed."""


LONGEST = 500
"""Characters of a sentence."""


class Broken(Exception):
    """A file brought an outcome that is not allowed; the message says which."""


@dataclass(frozen=True)
class Outcome:
    """What became of a file: VALID or SENTENCE, and the sentence."""

    name: str
    sentence: str = ""


@cache
def seeds(kind: str) -> list[bytes]:
    """The files of the corpus of a kind, in the order of their names."""
    return [path.read_bytes() for path in sorted((CORPUS / kind).iterdir())]


def judge(kind: str, data: bytes, folder: Path, number: int = 0) -> Outcome:
    """Give a file to pdflow as a user would; Broken unless it is valid or refused in one sentence.

    folder  where the file and what is made of it are written
    number  decides the format that a valid file is converted to
    """
    path = folder / f"mutant{KINDS[kind]}"
    path.write_bytes(data)
    if kind in ("weights", "checkpoint", "recipe"):
        return _call(_LOADERS[kind], path)
    told = _call(_show, path)
    if told.name == VALID:
        targets = MESH_TARGETS if kind in MESHES else CLOUD_TARGETS
        _call(_convert, path, folder / f"out.{targets[number % len(targets)]}")
    return told


def _call(function: Callable[..., Any], *paths: Path) -> Outcome:
    """Call a function; a PdflowError is what commands end with as exit code 2."""
    from pdflow.errors import PdflowError

    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        try:
            function(*paths)
        except PdflowError as error:
            if "\n" in str(error) or len(str(error)) > LONGEST:
                raise Broken(f"more than a sentence: {error!r}"[:300]) from error
            return Outcome(SENTENCE, str(error))
        except Exception as error:
            raise Broken(f"{type(error).__name__}: {error}"[:300]) from error
    return Outcome(VALID)


def _show(path: Path) -> None:
    """What `pdflow info` does; its whole command line would take ten times as long."""
    from pdflow.cli import info

    info.run([str(path)])


def _convert(source: Path, target: Path) -> None:
    from pdflow.cli import convert

    convert.run([str(source), str(target)])


def _load_weights(path: Path) -> None:
    from pdflow.weights import load_model, read_provenance

    load_model(path)
    read_provenance(path)


def _load_checkpoint(path: Path) -> None:
    from pdflow.train.checkpoint import resume

    resume(tiny_trainer(), path)


def _load_recipe(path: Path) -> None:
    from pdflow.train.recipe import load_recipe

    load_recipe(str(path))


_LOADERS = {
    "weights": _load_weights,
    "checkpoint": _load_checkpoint,
    "recipe": _load_recipe,
}


@cache
def tiny_trainer() -> Any:
    """A trainer of a network of a few hundred numbers, to resume checkpoints with."""
    import torch

    from pdflow.config import FlowConfig
    from pdflow.train.data import PatchPool
    from pdflow.train.loop import Trainer
    from pdflow.train.recipe import DataConfig, OptimConfig, Recipe

    torch.manual_seed(0)
    model = FlowConfig(
        edge_neighbours=(2,),
        augment_dims=1,
        hidden=2,
        masked_dims=1,
        condition_hidden=2,
        condition_features=2,
        condition_neighbours=2,
        augment_hidden=2,
        augment_steps=1,
        patch_points=12,
    )
    # No shipped recipe, so that a checkpoint of the corpus stays valid when those change.
    recipe = Recipe(
        "tiny",
        model,
        data=DataConfig(seeds=8, holdout=()),
        optim=OptimConfig(batch=4, steps=4),
    )
    points = torch.randn(200, 3, generator=torch.Generator().manual_seed(0)).double().numpy()
    pool = PatchPool.cut([points], 8, 12, torch.Generator().manual_seed(0))
    return Trainer(recipe, pool, "cpu")
