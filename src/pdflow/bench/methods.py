"""What denoises: a method is two functions, `load` and `denoise`.

Built in are our models (`pdflow`, `pdflow:resample`, any weight file), the noisy input, the oracle,
the peers and the rivals. A file `mine.py` with these functions is a method, too:

    load() -> state
    denoise(state, points) -> points        # (M, 3) float64 in and out

    pdflow bench puset --methods pdflow,mine.py
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdflow.bench.cases import Case, Points
from pdflow.errors import PdflowError

DIGEST_LENGTH = 12


def short_digest(settings: dict[str, Any]) -> str:
    """The first digits of the SHA-256 of JSON values, independent of their order."""
    text = json.dumps(settings, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:DIGEST_LENGTH]


@dataclass(frozen=True)
class Output:
    """The output of a method.

    points  (M', 3)
    remark  such as the number of passes
    kept    (M,) bool, the rows of the input that `points` are, if the method says it
    """

    points: Points
    remark: str = ""
    kept: NDArray[np.bool_] | None = None


@dataclass(frozen=True)
class Method:
    """A way to denoise.

    name      on the command line and in tables
    group     "ours", "reference", "peer" or "yours"
    load      makes the state that `denoise` needs; its time is not counted
    denoise   (state, case) -> output; only references may use the ground truth
    settings  JSON values that determine the output; their hash keeps results apart
    facts     JSON values for further columns
    missing   why it cannot run here, or None
    """

    name: str
    group: str
    load: Callable[[], Any]
    denoise: Callable[[Any, Case], Output]
    settings: dict[str, Any] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    missing: str | None = None

    @property
    def digest(self) -> str:
        """Short hash of the settings."""
        return short_digest(self.settings)


def references() -> list[Method]:
    """The noisy input itself, and the oracle: each point projected onto the mesh.

    The oracle knows the surface exactly, but not where on it a point belongs.
    """
    return [
        Method("noisy", "reference", _nothing, lambda _, case: Output(case.noisy)),
        Method("oracle", "reference", _nothing, _project),
    ]


def all_methods() -> list[Method]:
    """Our shipped models in both modes, references, peers and rivals, in the order of tables."""
    from pdflow.bench.ours import shipped_methods
    from pdflow.bench.peers import peers
    from pdflow.bench.rivals import rivals

    return [*shipped_methods(), *references(), *peers(), *rivals()]


def choose_methods(names: Iterable[str] | None) -> list[Method]:
    """The named methods; None means all, including those that are not installed."""
    known = {method.name: method for method in all_methods()}
    if names is None:
        return list(known.values())
    return [known[name] if name in known else _other(name, list(known)) for name in names]


def require_installed(methods: Iterable[Method]) -> list[Method]:
    """The methods, or an error for the first one that cannot run here."""
    chosen = list(methods)
    for method in chosen:
        if method.missing:
            raise PdflowError(f"{method.name} is not installed: {method.missing}.")
    return chosen


def _other(name: str, known: list[str]) -> Method:
    """A plug-in file, a weight file, or a rival with a number of passes."""
    from pdflow.bench.ours import is_model, model_method
    from pdflow.bench.rivals import named_rival

    if name.endswith(".py"):
        return _plug_in(Path(name))
    rival = named_rival(name)
    if rival is not None:
        return rival
    if is_model(name):
        return model_method(name)
    raise PdflowError(
        f"Unknown method {name!r}: choose from {', '.join(known)}, MODEL:MODE, or give a Python "
        "file with load() and denoise(state, points)."
    )


def _plug_in(path: Path) -> Method:
    """The method in a Python file with the functions `load` and `denoise`."""
    if not path.is_file():
        raise PdflowError(f"{path} does not exist: check the name of the method's file.")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise PdflowError(f"{path} cannot be run ({type(error).__name__}: {error}).") from error
    for function in ("load", "denoise"):
        if not callable(getattr(module, function, None)):
            raise PdflowError(
                f"{path} has no function {function}: a method needs load and denoise."
            )

    def load() -> Any:
        with blaming(path, "load"):
            return module.load()

    def denoise(state: Any, case: Case) -> Output:
        with blaming(path, "denoise"):
            points = np.asarray(module.denoise(state, case.noisy.copy()), np.float64)
        if points.ndim != 2 or points.shape[1] != 3 or not np.isfinite(points).all():
            raise PdflowError(f"{path}: denoise must return finite points (M, 3).")
        return Output(points)

    settings = {"file": hashlib.sha256(path.read_bytes()).hexdigest()}
    return Method(path.stem, "yours", load, denoise, settings)


@contextmanager
def blaming(method: object, function: str) -> Iterator[None]:
    """Let an error in somebody's method be a result that failed, not the end of the run.

    Of a long message, such as torch writes, only the first line is repeated.
    """
    try:
        yield
    except Exception as error:
        message = (str(error).splitlines() or [""])[0].rstrip(".")
        raise PdflowError(
            f"{method}: {function} failed ({type(error).__name__}: {message})."
        ) from error


def _nothing() -> None:
    """Nothing to load."""


def _project(_: None, case: Case) -> Output:
    from pdflow.geometry.triangles import closest_on_mesh

    if case.mesh is None:
        raise PdflowError("The oracle needs a mesh: leave it out for data without meshes.")
    return Output(closest_on_mesh(case.noisy, case.mesh)[2])
