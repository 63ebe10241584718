"""Train the networks of ablation tables, without measuring them.

    python benchmarks/training/train_tables.py DATA FOLDER filters:0 architecture:1 \
        "masked-dims:0:D_m = 8,D_m = 16" [--device cuda] [--size paper]

DATA is ScoreDenoise's folder, of which only training clouds are read. Each further word is a table,
a seed and, if not all rows are wanted, their names. The weights go to FOLDER/models, where
`pdflow bench TABLE -o FOLDER` finds them: so a machine with a GPU trains, and another one measures.
Networks that several tables share are trained once. Ctrl-C leaves a checkpoint, and the same
command goes on from there.
"""

from __future__ import annotations

import argparse
import sys
import time
from functools import partial
from pathlib import Path

from pdflow.bench.score_layout import training_clouds
from pdflow.bench.tables import TABLES
from pdflow.bench.variants import SIZES, Training, Variant, train_variants
from pdflow.provenance import describe_machine, source_version

TRAINED = {name: table.variants for name, table in TABLES.items() if table.variants}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("tables", nargs="+", help="TABLE:SEED[:ROW,...]")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--size", default="paper", choices=SIZES)
    parser.add_argument("--steps", type=int, help="by default those of the size")
    asked = parser.parse_args()
    print(f"{describe_machine()}\ncommit {source_version()}")
    chosen: dict[str, Variant] = {}
    for word in asked.tables:
        name, seed, rows = (*word.split(":", 2), "", "")[:3]
        if name not in TRAINED:
            parser.error(f"{name} trains no networks: choose from {', '.join(TRAINED)}.")
        variants = TRAINED[name](Training(asked.steps, asked.size, int(seed or 0)))
        named = {variant.name: variant for variant in variants}
        wanted = rows.split(",") if rows else [*named]
        if not named.keys() >= set(wanted):
            parser.error(f"{name} has no such rows: choose from {', '.join(named)}.")
        for variant in map(named.__getitem__, wanted):
            chosen.setdefault(variant.digest, variant)
    begun = time.perf_counter()

    def say(variant: Variant) -> None:
        seconds = time.perf_counter() - begun
        print(f"{seconds:6.0f} s: {variant.name}, {variant.digest}", flush=True)

    try:
        clouds = partial(training_clouds, asked.data)
        train_variants(list(chosen.values()), clouds, asked.folder, asked.device, say)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
