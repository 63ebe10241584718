"""State: whether a folder holds the run that was asked for, begun earlier or by nobody else."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pdflow.errors import PdflowError
from pdflow.model import PDFlow
from pdflow.tiles.store import Store, writing
from pdflow.weights import save_model

SUFFIX = ".pdflow-tiles"
"""Of the folder beside an output, or in a directory of outputs, that keeps the state of a run."""


LOCK = "lock"


def state_folder(outputs: Sequence[Path]) -> Path:
    """The folder for the state of a run with these outputs."""
    if len(outputs) == 1:
        return outputs[0].with_name(outputs[0].name + SUFFIX)
    return outputs[0].parent / f"{outputs[0].stem}{SUFFIX}"


def begun_tiles(outputs: Sequence[Path]) -> int | None:
    """The largest tile of an unfinished run with these outputs; None if there is none."""
    try:
        job = json.loads((state_folder(outputs) / "job.json").read_text("utf-8"))
        return int(job["memory"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def file_facts(path: Path) -> dict[str, Any]:
    """What tells an input from another, or from the same after a change."""
    facts = path.stat()
    return {"path": str(path.resolve()), "bytes": facts.st_size, "changed": facts.st_mtime_ns}


def model_facts(model: PDFlow) -> str:
    """A fingerprint of a network's weights."""
    digest = hashlib.sha256(repr((model.config, model.inference)).encode())
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def open_store(folder: Path, asked: Mapping[str, Any], model: PDFlow) -> Store:
    """The folder of a run: a new one, or one that an earlier attempt left.

    asked  everything that the result depends on; a folder with other values is refused
    """
    job = json.loads(json.dumps(asked))
    found = folder / "job.json"
    if found.exists():
        try:
            begun = json.loads(found.read_text("utf-8"))
        except ValueError:
            begun = {}
        keys = (begun.keys() | job.keys()) - {"name"}
        different = sorted(key for key in keys if begun.get(key) != job.get(key))
        if different:
            raise PdflowError(
                f"{folder} belongs to an unfinished run with other {' and '.join(different)}: "
                "repeat that command to finish it, or delete the folder to begin anew."
            )
        return Store(folder)
    with writing(folder):
        _clear(folder)  # of a run that was killed before it had begun, or while it was removed
        save_model(folder / "model.safetensors", model, {})
        write_json(found, job)
    return Store(folder)


def remove_store(folder: Path) -> None:
    """Remove the folder of a run that is complete; from the first moment on it cannot be used."""
    (folder / "job.json").unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)


def _clear(folder: Path) -> None:
    """Remove everything but the lock."""
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name != LOCK:
            path.unlink()


def write_json(path: Path, value: Any) -> None:
    """Write a small file: completely, or not at all."""
    with writing(path):
        temporary = path.with_name(path.name + ".tmp")
        with temporary.open("w", encoding="utf-8") as file:
            json.dump(value, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Make a folder, and refuse one that another process works on; its lock ends with it."""
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    with (folder / LOCK).open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise PdflowError(
                f"{folder} is in use: another pdflow works on the same output; wait for it."
            ) from None
        except OSError:  # a file system without locks
            pass
        yield
