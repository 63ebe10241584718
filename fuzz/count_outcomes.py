"""Count what becomes of mutants and crafted files, by kind and outcome.

    python fuzz/count_outcomes.py                     # 10,000 mutants a kind, 1,000 crafted files
    python fuzz/count_outcomes.py --mutants 200 --crafted 100 --kinds laz e57 --seed 7

A file is "valid" or ends in a "sentence". Anything else fails: "broken" (exit code 1, more than a
sentence), "slow" (over 2 s of CPU), "memory" (over 1 GiB beyond what the process had), "hang" (10 s
of CPU or 60 s in all) and "crash" (the process died). Files that fail are kept in --keep. Exit code
1 if there are any.

Each file is read in a process that the kernel kills when it hangs, and that is replaced.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import os
import resource
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path

from crafted import crafted
from mutants import fingerprint, mutant
from targets import CLOUD_TARGETS, KINDS, Broken, judge, seeds

CPU, HANG, PATIENCE = 2.0, 10.0, 60.0
MEMORY = 2**30
ADDRESSES = 6 * 2**30
"""Address space beyond that at the start. It stops what would take all memory; what stays below is
measured."""

MEMORY_DISK = "/dev/shm" if Path("/dev/shm").is_dir() else None
"""Folder for the files: writes are synchronised, which takes most of the time on a disk."""

BATCH = 100
"""Files that are handed over at once."""

COLUMNS = ("valid", "sentence", "broken", "slow", "memory", "hang", "crash")
Work = tuple[str, int, bytes]
"""Kind, number and content of a file."""


def parse() -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mutants", type=int, default=10_000, help="mutants of each kind")
    parser.add_argument("--crafted", type=int, default=1_000, help="crafted files in all")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, help="folder for files that fail")
    return parser.parse_args()


def main() -> int:
    """Count and print."""
    options = parse()
    print(f"seed {options.seed}, {options.mutants} mutants a kind, {options.crafted} crafted files")
    print(f"{'':15}" + "".join(f"{name:>10}" for name in COLUMNS), flush=True)
    failed = 0
    with Reader() as reader:
        for kind in options.kinds:
            mutants = ((kind, i, mutant(kind, options.seed, i)) for i in range(options.mutants))
            failed += report(kind, reader, mutants, options.keep)
        made = crafted(options.crafted, options.seed)
        files = ((k, i, data) for i, (k, data) in enumerate(made) if k in options.kinds)
        failed += report("crafted", reader, files, options.keep)
    print(f"{failed} failed")
    return int(failed > 0)


def report(name: str, reader: Reader, files: Iterator[Work], keep: Path | None) -> int:
    """Print a row and the failures of it; their number."""
    counts: Counter[str] = Counter()
    failures = []
    for (kind, number, data), (outcome, sentence) in reader.outcomes(files):
        counts[outcome] += 1
        if outcome not in ("valid", "sentence"):
            failures.append(f"  {kind} {number} {fingerprint(data)} {outcome}: {sentence}")
            if keep:
                keep.mkdir(parents=True, exist_ok=True)
                (keep / f"{kind}-{fingerprint(data)}{KINDS[kind]}").write_bytes(data)
    print(f"{name:15}" + "".join(f"{counts[c]:10}" for c in COLUMNS), flush=True)
    for line in failures[:50]:
        print(line, flush=True)
    return len(failures)


class Reader:
    """Judges files in a process, and starts another one when it dies. A context manager."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(dir=MEMORY_DISK)
        self._start()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        arguments = (theirs, Path(self._folder.name))
        self._process = context.Process(target=serve, args=arguments, daemon=True)
        self._process.start()
        theirs.close()

    def outcomes(self, files: Iterator[Work]) -> Iterator[tuple[Work, tuple[str, str]]]:
        """Each file with its outcome and its sentence."""
        while batch := list(itertools.islice(files, BATCH)):
            while batch:
                answers = self._answers(batch)
                yield from zip(batch, answers, strict=False)
                batch = batch[len(answers) :]

    def _answers(self, batch: list[Work]) -> list[tuple[str, str]]:
        """The outcomes of a batch up to the file that ends the process, if there is one."""
        answers: list[tuple[str, str]] = []
        try:
            self._pipe.send(batch)
            while len(answers) < len(batch):
                answers.append(self._pipe.recv())
        except (EOFError, OSError):
            self._process.join()
            code = self._process.exitcode or 0
            self._start()
            is_limit = -code in (signal.SIGPROF, signal.SIGALRM)
            answers.append(("hang" if is_limit else "crash", f"exit code {code}"))
        return answers

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self._pipe.close()
        self._process.join()
        self._folder.cleanup()


def serve(pipe: Connection, folder: Path) -> None:
    """Judge files from a pipe. Default actions of timers end the process, even in native code."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)  # a panic of a native library prints as it likes
    warm_up(folder)
    limit = address_space() + ADDRESSES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    while True:
        try:
            batch = pipe.recv()
        except EOFError:
            return
        for work in batch:
            pipe.send(measure(work, folder))


def warm_up(folder: Path) -> None:
    """Import and compile everything, so that no file pays for it."""
    for kind in KINDS:
        judge(kind, seeds(kind)[-1], folder)
    for number in range(len(CLOUD_TARGETS)):
        judge("npz", seeds("npz")[-1], folder, number)
        judge("glb", seeds("glb")[-1], folder, number)


def measure(work: Work, folder: Path) -> tuple[str, str]:
    """The outcome of a file, with what it took."""
    kind, number, data = work
    signal.setitimer(signal.ITIMER_PROF, HANG)
    signal.setitimer(signal.ITIMER_REAL, PATIENCE)
    reset_peak()
    before, start = resident(), time.process_time()
    try:
        made = judge(kind, data, folder, number)
        answer = made.name, made.sentence
    except Broken as error:
        answer = "broken", str(error)
    except MemoryError as error:
        answer = "memory", str(error)
    took, held = time.process_time() - start, resident("VmHWM") - before
    signal.setitimer(signal.ITIMER_PROF, 0)
    signal.setitimer(signal.ITIMER_REAL, 0)
    if answer[0] in ("valid", "sentence"):
        if held > MEMORY or "llocat" in answer[1] or "memory" in answer[1].lower():
            return "memory", f"{held / 2**20:.0f} MiB: {answer[1]}"
        if took > CPU:
            return "slow", f"{took:.1f} s: {answer[1]}"
    return answer


def reset_peak() -> None:
    """Let the kernel measure the peak of resident memory from here on."""
    Path("/proc/self/clear_refs").write_text("5")


def resident(entry: str = "VmRSS") -> int:
    """Bytes of an entry of this process's status."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{entry}:"):
            return int(line.split()[1]) * 1024
    raise KeyError(entry)


def address_space() -> int:
    """Bytes of addresses in use."""
    return resident("VmSize")


if __name__ == "__main__":
    sys.exit(main())
