"""Measure the missing results of a table: every cell x shape x method, each stored at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import numpy as np

from pdflow.bench.cases import Case, Cell
from pdflow.bench.methods import Method, Output
from pdflow.bench.records import Key, Record, Run, Store
from pdflow.errors import PdflowError
from pdflow.metrics import measure

WARM_UP_POINTS = 1000
"""Points of the first, untimed call of a method, which compiles and loads what it needs."""

Advance = Callable[[float], None]


@dataclass(frozen=True)
class Pending:
    """One result that is missing."""

    cell: Cell
    shape: str
    method: Method
    key: Key


def missing_results(
    cells: Sequence[Cell], methods: Sequence[Method], store: Store, seed: int
) -> list[Pending]:
    """Results that are not stored yet, shape by shape, so that a case is loaded only once."""
    return [each for each in _wanted(cells, methods, seed) if each.key not in store.records]


def failures(
    cells: Sequence[Cell], methods: Sequence[Method], store: Store, seed: int
) -> list[Record]:
    """Stored results of these methods that have no values."""
    found = [store.records.get(each.key) for each in _wanted(cells, methods, seed)]
    return [record for record in found if record is not None and not record.values]


def _wanted(cells: Sequence[Cell], methods: Sequence[Method], seed: int) -> Iterator[Pending]:
    """Every result that belongs to a run, stored or not."""
    for cell in cells:
        for shape in cell.shapes:
            for method in methods:
                if method.name not in cell.skips:
                    key = Key(cell.block, cell.name, shape, method.name, method.digest, seed)
                    yield Pending(cell, shape, method, key)


def run_missing(missing: Sequence[Pending], store: Store, run: Run, advance: Advance) -> None:
    """Measure what is missing, in order; `advance` is called with the weight of what was done.

    A method that raises a PdflowError is recorded as failed on that case, and the others go on.
    """
    store.start(run)
    loaded: dict[str, Any] = {}
    for _, same in groupby(missing, key=lambda each: (each.cell.label, each.shape)):
        of_case = list(same)
        case = of_case[0].cell.load(of_case[0].shape)
        for each in of_case:
            method = each.method
            if method.name not in loaded:
                loaded[method.name] = _loaded(method, case)
            store.add(_measured(each, loaded[method.name], case, run))
            advance(each.cell.weight)


def _loaded(method: Method, case: Case) -> Any:
    """The state of a method after a first call, or the error that loading it ended with."""
    try:
        state = method.load()
    except PdflowError as error:
        return error
    step = max(1, len(case.noisy) // WARM_UP_POINTS)
    with suppress(PdflowError):  # the timed call reports it
        method.denoise(state, replace(case, noisy=np.ascontiguousarray(case.noisy[::step])))
    return state


def _measured(pending: Pending, state: Any, case: Case, run: Run) -> Record:
    """One method on one case, timed and measured."""
    method = pending.method
    if method.group == "peer":
        _ = case.scale  # estimated before the clock starts: it is not part of the tool
    wall, cpu = time.perf_counter(), _cpu_seconds()
    values: dict[str, float] = {}
    try:
        if isinstance(state, PdflowError):
            raise state
        done = method.denoise(state, case)
        wall, cpu = time.perf_counter() - wall, _cpu_seconds() - cpu
        remark = done.remark
        values = _values(pending.cell, case, done)
    except PdflowError as error:
        wall = cpu = 0.0
        remark = f"failed: {error}"
    return Record(pending.key, method.group, values, wall, cpu, remark, method.facts, run.key)


def _values(cell: Cell, case: Case, done: Output) -> dict[str, float]:
    """Column -> value, in plain units."""
    if cell.measure is not None:
        return cell.measure(case, done)
    return measure(done.points, case.clean, case.mesh, normals=case.normals, metrics=cell.metrics)


def _cpu_seconds() -> float:
    """CPU time so far, of this process and of the commands it has run."""
    try:
        import resource
    except ImportError:  # Windows
        return time.process_time()
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime
