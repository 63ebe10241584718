"""No file ends in anything but a valid cloud or one sentence.

CI tries a few thousand files with fixed seeds; `fuzz/` says how to try them for hours.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

Script = Callable[[str], ModuleType]

needs_linux = pytest.mark.skipif(
    sys.platform != "linux", reason="needs Linux: memory is measured in /proc"
)
RUNS = 2000
"""Inputs of the guided fuzzer: about ten seconds of CPU."""

MUTANTS, CRAFTED = 40, 220
"""Mutants of each kind, and crafted files: about ten seconds of CPU."""

PATIENCE = 600


def run(script: Path, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(script), "--seed", "1", "--keep", str(folder / "found"), *words]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        command, env=environment, cwd=folder, capture_output=True, text=True, timeout=PATIENCE
    )


@needs_linux
@pytest.mark.skipif(importlib.util.find_spec("atheris") is None, reason="needs atheris")
def test_inputs_guided_by_coverage(fuzz: Path, tmp_path: Path) -> None:
    done = run(fuzz / "guided.py", tmp_path, "--runs", str(RUNS))
    assert done.returncode == 0, done.stderr[-3000:]
    assert f"Done {RUNS} runs" in done.stderr
    assert list((tmp_path / "found").iterdir()) == []


@needs_linux
def test_mutants_and_crafted_files(fuzz: Path, tmp_path: Path, script: Script) -> None:
    words = ("--mutants", str(MUTANTS), "--crafted", str(CRAFTED))
    done = run(fuzz / "count_outcomes.py", tmp_path, *words)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert lines[-1] == "0 failed"
    counted = {line.split()[0]: [int(n) for n in line.split()[1:]] for line in lines[2:-1]}
    kinds = script("targets").KINDS
    assert counted.keys() == {*kinds, "crafted"}
    for kind in kinds:
        assert sum(counted[kind][:2]) == MUTANTS
        assert counted[kind][1] > 0, "nothing was refused, so nothing was tried"
    assert sum(counted["crafted"][:2]) == CRAFTED


def test_the_corpus_has_every_format_and_every_file_has_an_allowed_outcome(
    script: Script, tmp_path: Path
) -> None:
    from pdflow.io import FORMATS

    targets = script("targets")
    assert {suffix for fmt in FORMATS for suffix in fmt.suffixes[:1]} <= {*targets.KINDS.values()}
    for kind in targets.KINDS:
        found = [targets.judge(kind, data, tmp_path).name for data in targets.seeds(kind)]
        assert "valid" in found, kind
        assert {*found} <= {"valid", "sentence"}


def test_mutants_are_the_same_in_every_run(script: Script) -> None:
    mutants = script("mutants")
    for kind in ("ply", "e57", "npz", "checkpoint"):
        first = [mutants.mutant(kind, 3, i) for i in range(5)]
        assert first == [mutants.mutant(kind, 3, i) for i in range(5)]
        assert len({*first}) > 1


def test_checksums_of_containers_fit_again(script: Script, tmp_path: Path) -> None:
    """Otherwise mutants of the inside would test the checksums only."""
    containers, targets = script("containers"), script("targets")
    for kind, ways in containers.CONTAINERS.items():
        for way in ways:
            for data in targets.seeds(kind):
                same = way(data, lambda content: content)
                assert targets.judge(kind, same, tmp_path).name == "valid", (kind, way.__name__)


# The judge itself


@needs_linux
@pytest.mark.parametrize("outcome", ["broken", "slow", "memory"])
def test_the_judge_notices(
    outcome: str, script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count, targets = script("count_outcomes"), script("targets")

    def misbehave(*_: object) -> None:
        if outcome == "broken":
            raise ValueError("not a sentence")
        if outcome == "memory":
            b"1" * (2 * count.MEMORY)  # written to: zeros would take no memory

    monkeypatch.setattr(targets, "_show", misbehave)
    monkeypatch.setattr(count, "MEMORY", 2**26)
    if outcome == "slow":
        monkeypatch.setattr(count, "CPU", 0.0)
    assert count.measure(("ply", 0, targets.seeds("ply")[0]), tmp_path)[0] == outcome
