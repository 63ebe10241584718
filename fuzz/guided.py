"""Fuzz the readers guided by coverage (atheris, libFuzzer): inputs that reach new code are kept.

    python fuzz/guided.py --runs 2000 --seed 1          # all kinds in one process, as CI does
    python fuzz/guided.py --kinds laz e57 --minutes 60  # each kind for an hour
    python fuzz/guided.py --minutes 30 --grow           # and keep what reached new code

A file that breaks something is written to --keep and the exit code is not 0. `--grow` adds inputs
to fuzz/grown, a corpus beside the one in the repository, which the next run starts from as well.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from engine import NAMES
from targets import CORPUS, KINDS, seeds

GROWN = CORPUS.parent / "grown"
ENGINE = Path(__file__).with_name("engine.py")
LONGEST = 8192
"""Bytes of the longest input; the corpus is shorter, except for checkpoints."""


def parse() -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--runs", type=int, help="inputs to try, all kinds together")
    parser.add_argument("--minutes", type=float, help="time for each kind, one after the other")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, default=Path("found"), help="folder for failures")
    parser.add_argument("--grow", action="store_true", help="keep inputs that reach new code")
    return parser.parse_args()


def main() -> int:
    """Start a process for all kinds, or for each kind."""
    options = parse()
    if options.minutes:
        limit = f"-max_total_time={round(options.minutes * 60)}"
        return max(start(options, [kind], limit) for kind in options.kinds)
    return start(options, options.kinds, f"-runs={options.runs or 1000}")


def start(options: argparse.Namespace, kinds: list[str], limit: str) -> int:
    """Run libFuzzer over kinds in a process of its own, which it ends itself; its exit code."""
    options.keep.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        start_corpus = Path(folder, "start")
        start_corpus.mkdir()
        for kind in kinds:
            grown = sorted((GROWN / kind).glob("*")) if (GROWN / kind).is_dir() else []
            contents = [*seeds(kind), *(path.read_bytes() for path in grown)]
            for i, data in enumerate(contents):
                (start_corpus / f"{kind}-{i}").write_bytes(mark(kind) + data)
        reached = Path(folder, "reached")
        reached.mkdir()
        command = [sys.executable, str(ENGINE), folder, limit]
        command += [f"-seed={options.seed}", f"-artifact_prefix={options.keep}/", "-timeout=60"]
        command += [f"-max_len={LONGEST}", "-print_final_stats=1", "-rss_limit_mb=4096"]
        command += [str(reached), str(start_corpus)]
        code = subprocess.run(command, check=False).returncode
        if options.grow:
            for path in reached.iterdir():
                data = path.read_bytes()
                if data:
                    place = GROWN / NAMES[data[0] % len(NAMES)]
                    place.mkdir(parents=True, exist_ok=True)
                    (place / path.name).write_bytes(data[1:])
    return code


def mark(kind: str) -> bytes:
    """The first byte of an input, which says its kind."""
    return bytes([NAMES.index(kind)])


if __name__ == "__main__":
    sys.exit(main())
