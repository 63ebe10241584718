"""Stop tables of trained variants, go on, and compare their rows with those of undisturbed runs.

    python benchmarks/training/check_resume.py DATA FOLDER [--device cuda] [--size paper]
        [--steps 600]

DATA is ScoreDenoise's folder, FOLDER a new one. Each table is made twice: once without a stop, and
once with SIGINT in the middle of each training, at a share of it that is drawn with a seed; the
undisturbed run says when that is. A stop counts if it left a checkpoint. Both runs must have the
same rows, with all digits, or the script ends with status 1.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np

from pdflow.bench.records import Key, Store
from pdflow.provenance import describe_machine, source_version

SEED = 0
TABLES = {
    "filters": "LCC,FBM",
    "architecture": "L = 4,forward + MLP",
    "augment-dims": "D_a = 0,D_a = 16",
    "masked-dims": "D_m = 8,D_m = 16",
    "training-noise": "",
}
"""Tables, and the rows that are trained; none: all."""

MIDDLE = (0.3, 0.8)
"""Earliest and latest stop of a training, as shares of it."""

MOST_STOPS = 50
"""Stops after which a run counts as one that does not go on."""

POLL = 0.05
"""Seconds between two looks at the folder of a run."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--size", default="small")
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--shapes", type=int, default=2)
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=[*TABLES])
    parser.add_argument("--jobs", type=int, default=1)
    asked = parser.parse_args()
    if asked.folder.exists():
        parser.error(f"{asked.folder} exists: name a new folder, or nothing is left to stop.")
    print(f"{describe_machine()}\ncommit {source_version()}, seed {SEED}")
    print(f"size {asked.size}, {asked.steps} steps\n")
    print("| table | rows | stops | equal rows |")
    print("|---" * 4 + "|")
    with ThreadPoolExecutor(asked.jobs) as pool:
        passed = [*pool.map(partial(check, asked), asked.tables)]
    if not all(passed):
        sys.exit(1)


def check(asked: argparse.Namespace, table: str) -> bool:
    """Print a line of the table; whether stops made no difference."""
    words = [sys.executable, "-m", "pdflow", "bench", table, "--data", str(asked.data)]
    words += ["--size", asked.size, "--steps", str(asked.steps), "--shapes", str(asked.shapes)]
    words += ["--device", asked.device, "--levels", "0.02"]
    words += ["--methods", TABLES[table]] if TABLES[table] else []
    whole, parts = (asked.folder / table / name for name in ("whole", "parts"))
    times = time_trainings([*words, "-o", str(whole)], whole)
    rng = np.random.default_rng([SEED, *table.encode()])
    stops = tried = 0
    while not stop_once([*words, "-o", str(parts)], parts, stops, times, rng.uniform(*MIDDLE)):
        tried += 1
        stops += any((parts / "models").glob("*.checkpoint"))
        if tried == MOST_STOPS:
            raise SystemExit(f"{table}: {tried} stops, {stops} of them in a training, and no end.")
    undisturbed = rows_of(whole / f"{table}.jsonl")
    stopped = rows_of(parts / f"{table}.jsonl")
    if not stopped or undisturbed.keys() != stopped.keys():
        raise SystemExit(f"{table}: the runs have different rows, or none.")
    same = sum(values == undisturbed[key] for key, values in stopped.items())
    print(f"| {table} | {len(stopped)} | {stops} | {same} |", flush=True)
    return same == len(stopped)


def time_trainings(words: list[str], folder: Path) -> list[float]:
    """Run a command to its end: seconds until its first training begins, and until each ends."""
    with Running(words) as process:
        begun, times = time.perf_counter(), []
        while process.runs():
            if len(times) < trained(folder) + (folder / "models").is_dir():
                times.append(time.perf_counter() - begun)
    return times


def stop_once(
    words: list[str], folder: Path, number: int, times: list[float], share: float
) -> bool:
    """Run a command, and interrupt it when a share of training `number` has passed.

    Whether it ended by itself, as it does where there are fewer trainings.
    """
    with Running(words) as process:
        begun, waits = time.perf_counter(), trained(folder) < number
        while process.runs():
            if waits and trained(folder) == number:
                begun, waits = time.perf_counter() - times[0], False
            if waits or number + 1 >= len(times):
                continue
            if time.perf_counter() - begun > times[0] + share * (times[number + 1] - times[number]):
                process.interrupt()
        return not process.interrupted


class Running:
    """A command that runs in a block; it has to end by itself, or because it was interrupted."""

    def __init__(self, words: list[str]) -> None:
        self.words, self.output = words, tempfile.TemporaryFile()  # noqa: SIM115
        self.process = subprocess.Popen(words, stdout=self.output, stderr=subprocess.STDOUT)
        self.interrupted = False

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *_: object) -> None:
        self.output.seek(0)
        said = self.output.read().decode()
        self.output.close()
        if self.process.wait() not in (0, 130):
            raise SystemExit(f"{' '.join(self.words)}: {said}")

    def runs(self) -> bool:
        """Whether it still runs; asks again after a while."""
        time.sleep(POLL)
        return self.process.poll() is None

    def interrupt(self) -> None:
        """Interrupt it as Ctrl-C does, once."""
        if not self.interrupted:
            self.process.send_signal(signal.SIGINT)
        self.interrupted = True


def trained(folder: Path) -> int:
    """Networks that a run has trained."""
    return len([*(folder / "models").glob("*.safetensors")])


def rows_of(path: Path) -> dict[Key, dict[str, float]]:
    return {key: record.values for key, record in Store.open(path).records.items()}


if __name__ == "__main__":
    main()
