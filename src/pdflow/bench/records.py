"""Results on disk: a line of JSON for each cell x shape x method, appended once it is measured.

A line with `command` describes a run: where and how the results that name it were made. Lines are
never changed, and stored results are not measured again. Of several results of a method, those of
the last weights count.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from pdflow.errors import PdflowError
from pdflow.io import atomic_path
from pdflow.provenance import describe_machine, load_average, source_version

DIGITS = 6


class Key(NamedTuple):
    """Identifies a result; `settings` is the digest of the method's settings."""

    block: str
    cell: str
    shape: str
    method: str
    settings: str
    seed: int


@dataclass(frozen=True)
class Record:
    """One result.

    values   column -> value in plain units; empty if the method failed
    wall     elapsed seconds
    cpu      seconds summed over all cores
    remark   number of passes, or why it failed
    facts    further columns of the table, such as the number of parameters
    run      key of the description of the run
    """

    key: Key
    group: str
    values: dict[str, float]
    wall: float
    cpu: float
    remark: str
    facts: dict[str, Any]
    run: str

    def line(self) -> str:
        """As JSON."""
        known = {**self.key._asdict(), **asdict(self)}
        del known["key"]
        known["values"] = {name: _rounded(value) for name, value in self.values.items()}
        known["wall"], known["cpu"] = _rounded(self.wall, 3), _rounded(self.cpu, 3)
        return json.dumps(known)


@dataclass(frozen=True)
class Run:
    """Where and how results were made."""

    command: str
    commit: str
    machine: str
    load: float
    seed: int

    @staticmethod
    def here(command: str, seed: int) -> Run:
        """This checkout on this machine."""
        return Run(command, source_version(), describe_machine(), load_average(), seed)

    @property
    def key(self) -> str:
        """Short hash."""
        return hashlib.sha256(json.dumps(asdict(self)).encode()).hexdigest()[:8]


@dataclass
class Store:
    """All results of one table: `FOLDER/TABLE.jsonl`."""

    path: Path
    records: dict[Key, Record] = field(default_factory=dict)
    runs: dict[str, Run] = field(default_factory=dict)
    first_seen: list[str] = field(default_factory=list)
    """Methods in the order of their first result."""

    @staticmethod
    def open(path: Path) -> Store:
        """All stored results; an unfinished last line (of a killed run) is removed."""
        store = Store(path)
        lines = path.read_text().splitlines() if path.exists() else []
        for number, line in enumerate(lines, 1):
            try:
                store._take(json.loads(line))
            except (ValueError, KeyError, TypeError) as error:
                if number < len(lines):
                    raise PdflowError(
                        f"{path}, line {number} is not a result: delete that line."
                    ) from error
                with atomic_path(path) as temporary:
                    temporary.write_text("".join(f"{line}\n" for line in lines[:-1]))
        return store

    def _take(self, values: dict[str, Any]) -> None:
        if "command" in values:
            run = Run(**values)
            self.runs[run.key] = run
            return
        key = Key(*(values.pop(name) for name in Key._fields))
        if key.method not in self.first_seen:
            self.first_seen.append(key.method)
        # Removed first, so that the dictionary is ordered by the last result.
        self.records.pop(key, None)
        self.records[key] = Record(key, **values)

    def start(self, run: Run) -> None:
        """Store the description of the run that makes the next results."""
        if run.key not in self.runs:
            self._append(json.dumps(asdict(run)))
        self.runs[run.key] = run

    def add(self, record: Record) -> None:
        """Store a result."""
        self._append(record.line())
        self._take(json.loads(record.line()))

    def _append(self, line: str) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a") as file:
                file.write(f"{line}\n")
        except OSError as error:
            raise PdflowError(
                f"{self.path} could not be written to ({error.strerror or error}): run the command "
                "again when it can; results that are in it are not measured again."
            ) from error

    def latest(self) -> dict[str, tuple[str, int]]:
        """Method -> settings and seed of its last result: the newest weights or parameters."""
        return {key.method: (key.settings, key.seed) for key in self.records}


def _rounded(value: float, digits: int = DIGITS) -> float:
    return float(f"{value:.{digits}g}")
