"""A training run: a folder with a checkpoint, weights, a log and a picture."""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType

import torch

from pdflow.device import using_device
from pdflow.errors import PdflowError
from pdflow.scenes.packed import PackedScans
from pdflow.train.checkpoint import provenance, resume, save_checkpoint
from pdflow.train.compute.distributed import Workers
from pdflow.train.log import RunLog
from pdflow.train.loop import Trainer
from pdflow.train.recipe import Recipe
from pdflow.train.scans import ScanPool
from pdflow.train.shapes import Shapes, Source
from pdflow.train.validation import Validation
from pdflow.weights import save_model

CHECKPOINT, WEIGHTS, PICTURE = "checkpoint.safetensors", "model.safetensors", "patch.png"

SAVE_EVERY = 300.0
"""Seconds after which the next line of the log also writes a checkpoint."""

SEEDS_PER_SCAN = 96
"""Surroundings that are found in every made scan."""

CPU_BATCH = 8192
"""Most points in a batch on a CPU: a step of the default network then takes seconds."""

Say = Callable[[str], None]


def train(
    recipe: Recipe,
    shapes: Source,
    folder: Path,
    device: str,
    *,
    minutes: float = math.inf,
    anneal: bool = False,
    init: str | Path | None = None,
    say: Say = print,
    advance: Callable[[float], None] = lambda share: None,
) -> Trainer:
    """Train in a folder; if it holds a checkpoint, resume from it.

    shapes   training data; shapes that the recipe holds out are for validation
    minutes  stop after this time; with `anneal` the schedule ends with it
    init     weights to start from: a file or a shipped name
    say      prints a sentence for the user
    advance  gets the share of the run that was made since the last call

    Ctrl-C and SIGTERM end the run after the current step and save everything, as at its end.
    """
    with using_device(device):
        torch.zeros(1, device=device)
        if torch.device(device).index is not None:
            torch.cuda.set_device(device)
    workers = Workers.join(device)
    tell = say if workers.first else (lambda sentence: None)
    recipe = fit_to_device(_with_known_holdout(recipe, shapes, tell), device, tell)
    kept, held = shapes.split(recipe.data.holdout)
    generator = torch.Generator(device).manual_seed(recipe.optim.seed)
    pool = kept.pool(recipe.data.seeds, recipe.model.patch_points, generator)
    validation = Validation(held, recipe, device) if len(held) else None
    scans = None
    if recipe.data.scans:
        packed = PackedScans.build(range(recipe.data.scan_seeds))
        scans = ScanPool.cut(packed, SEEDS_PER_SCAN, recipe.model.patch_points, generator)
    with _within_memory(recipe):
        trainer = Trainer(
            recipe, pool, device, scans=scans, validation=validation, init=init, workers=workers
        )
    if (folder / CHECKPOINT).exists():
        resume(trainer, folder / CHECKPOINT)
    with stopping_on_signals(trainer), _within_memory(recipe), _within_disk(folder):
        if workers.first:
            book = _Book(trainer, folder, kept.digest, say)
            advance(trainer.share)
            trainer.fit(minutes, anneal=anneal, log=book.note, advance=advance)
            book.save()
        else:
            trainer.fit(minutes, anneal=anneal)
    workers.leave()
    return trainer


def fit_to_device(recipe: Recipe, device: str, say: Say = print) -> Recipe:
    """The recipe with batches that a CPU can make steps of; on a GPU it stays.

    The learning rate shrinks with the square root of the batch, as the noise of its gradient grows.
    """
    batch = max(1, min(recipe.optim.batch, CPU_BATCH // recipe.model.patch_points))
    if torch.device(device).type != "cpu" or batch == recipe.optim.batch:
        return recipe
    rate = recipe.optim.lr * math.sqrt(batch / recipe.optim.batch)
    say(
        f"on a CPU: batches of {batch} patches instead of {recipe.optim.batch}, "
        f"rate {rate:.2g} instead of {recipe.optim.lr:.2g}"
    )
    return replace(recipe, optim=replace(recipe.optim, batch=batch, lr=rate))


@contextmanager
def _within_memory(recipe: Recipe) -> Iterator[None]:
    """Say what to change if a GPU has too little memory for a step."""
    try:
        yield
    except torch.cuda.OutOfMemoryError as error:
        raise PdflowError(
            f"The GPU has too little memory for batches of {recipe.optim.batch} patches: lower "
            "[optim] batch in a recipe of your own."
        ) from error


@contextmanager
def _within_disk(folder: Path) -> Iterator[None]:
    """Say what to do if the log or the curves cannot be written."""
    try:
        yield
    except OSError as error:
        raise PdflowError(
            f"{folder} could not be written to ({error.strerror or error}): make room, and run the "
            "command again; it goes on from the last checkpoint."
        ) from error


def _with_known_holdout(recipe: Recipe, shapes: Source, say: Say) -> Recipe:
    """The recipe without its held-out shapes if the data has none of them: it is other data."""
    names = recipe.data.holdout
    if not names or not isinstance(shapes, Shapes) or set(names) & set(shapes.clouds):
        return recipe
    say(
        f"none of the recipe's held-out shapes ({', '.join(names)}) is in this data, so all shapes "
        "are trained on and none is validated: name some with --holdout"
    )
    return replace(recipe, data=replace(recipe.data, holdout=()))


class _Book:
    """Keeps the folder of a run up to date."""

    def __init__(self, trainer: Trainer, folder: Path, data_sha256: str, say: Say) -> None:
        self._trainer, self._folder, self._say = trainer, folder, say
        self._data_sha256 = data_sha256
        folder.mkdir(parents=True, exist_ok=True)
        self._log = RunLog(folder, say)
        if trainer.step_count:
            say(f"resuming at step {trainer.step_count}")
        self._saved = time.monotonic()

    def note(self, line: dict[str, float]) -> None:
        """Log a line, draw a picture after each validation, and save now and then."""
        self._log(line)
        self._say(describe(line))
        trainer = self._trainer
        if trainer.validation and math.isfinite(line.get("validation", math.nan)):
            trainer.validation.draw(trainer.averaged(), self._folder / PICTURE)
        if time.monotonic() - self._saved > SAVE_EVERY:
            self._write()

    def save(self) -> None:
        """Write checkpoint and weights, and print where they are."""
        self._write()
        self._log.close()
        trainer, done = self._trainer, "done"
        if trainer.stop:
            done = "stopped; the same command resumes"
        weights = self._folder / WEIGHTS
        self._say(f"{weights}: {trainer.step_count} steps, {done}")

    def _write(self) -> None:
        self._log.draw()
        save_checkpoint(self._trainer, self._folder / CHECKPOINT)
        origin = provenance(self._trainer, self._data_sha256)
        save_model(self._folder / WEIGHTS, self._trainer.averaged(), origin)
        self._saved = time.monotonic()


def describe(line: dict[str, float]) -> str:
    """A line of the log for people."""
    start = f"step {line['step']:>7}"
    if "validation" in line:
        figures = "  ".join(f"{name} {value:.4f}" for name, value in line.items() if "@" in name)
        return f"{start}  validation {line['validation']:.4f}  {figures}"
    return (
        f"{start}  loss {line['loss']:.5f}  rec {line['rec']:.5f}  nll {line['prior']:.1f}  "
        f"rate {line['rate']:.2e}  {line['patches_per_second']:.0f} patches/s"
        + (f"  skipped {line['skipped']} steps" if line["skipped"] else "")
    )


@contextmanager
def stopping_on_signals(trainer: Trainer) -> Iterator[None]:
    """Let SIGINT and SIGTERM end `fit` after the current step; a second signal ends it at once."""

    def stop(number: int, frame: FrameType | None) -> None:
        trainer.stop = True
        for kind, handler in before.items():
            signal.signal(kind, handler)

    before = {kind: signal.getsignal(kind) for kind in (signal.SIGINT, signal.SIGTERM)}
    try:
        for kind in before:
            signal.signal(kind, stop)
    except ValueError:  # signals belong to the main thread
        yield
        return
    try:
        yield
    finally:
        for kind, handler in before.items():
            signal.signal(kind, handler)
