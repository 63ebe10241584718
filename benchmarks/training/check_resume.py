"""Stop tables of trained variants, go on, and compare their rows with those of undisturbed runs.

    python benchmarks/training/check_resume.py DATA FOLDER [--device cuda] [--size paper]
        [--steps 600]

DATA is ScoreDenoise's folder, FOLDER a new one. Each table is made twice: once without a stop, and
once with SIGINT after some seconds, drawn with a seed, as often as it takes until the run ends.
Both must have the same rows, with all digits, or the script ends with status 1.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
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

MOST_STOPS = 200
"""Stops after which a run counts as one that does not go on."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--size", default="small")
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--shapes", type=int, default=2)
    parser.add_argument(
        "--stop", type=float, nargs=2, default=(6.0, 16.0), help="seconds, at least and at most"
    )
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
    words = [sys.executable, "-m", "pdflow", "bench", table, "--data", asked.data]
    words += ["--size", asked.size, "--steps", asked.steps, "--shapes", asked.shapes]
    words += ["--device", asked.device, "--levels", "0.02"]
    words += ["--methods", TABLES[table]] if TABLES[table] else []
    whole, parts = asked.folder / "whole", asked.folder / "parts"
    run([*map(str, words), "-o", str(whole)], None)
    rng = np.random.default_rng([SEED, *table.encode()])
    stops = 0
    while not run([*map(str, words), "-o", str(parts)], rng.uniform(*asked.stop)):
        stops += 1
        if stops == MOST_STOPS:
            raise SystemExit(f"{table}: {stops} stops, and no end: raise --stop.")
    undisturbed = rows_of(whole / f"{table}.jsonl")
    stopped = rows_of(parts / f"{table}.jsonl")
    if not stopped or undisturbed.keys() != stopped.keys():
        raise SystemExit(f"{table}: the runs have different rows, or none.")
    same = sum(values == undisturbed[key] for key, values in stopped.items())
    print(f"| {table} | {len(stopped)} | {stops} | {same} |", flush=True)
    return same == len(stopped)


def run(words: list[str], seconds: float | None) -> bool:
    """Whether the command ended by itself; else it was interrupted after some seconds."""
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        output, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate()
    if process.returncode not in (0, 130):
        raise SystemExit(f"{' '.join(words)}: {output.decode()}")
    return process.returncode == 0


def rows_of(path: Path) -> dict[Key, dict[str, float]]:
    return {key: record.values for key, record in Store.open(path).records.items()}


if __name__ == "__main__":
    main()
