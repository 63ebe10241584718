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
from pdflow.tiles.sealed import writing
from pdflow.tiles.store import Store
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
        _require_same(folder, _begun(found), job)
    else:
        with writing(folder):
            _clear(folder)  # of a run that was killed before it had begun, or while it was removed
    # Workers must read the network that was asked for, whatever happened to the file.
    save_model(folder / "model.safetensors", model, {})
    store = Store(folder)
    if found.exists():
        store.discard_damaged()
    else:
        _write_job(found, job)
    return store


def _begun(path: Path) -> dict[str, Any]:
    """What was asked of the run in a folder."""
    try:
        begun: dict[str, Any] = json.loads(path.read_text("utf-8"))
        begun["name"]
    except (ValueError, KeyError, TypeError) as error:
        raise PdflowError(
            f"{path} is damaged, so the run cannot go on: delete {path.parent} to begin anew."
        ) from error
    return begun


def _require_same(folder: Path, begun: Mapping[str, Any], asked: Mapping[str, Any]) -> None:
    """Refuse a folder of a run with other inputs or options."""
    keys = (begun.keys() | asked.keys()) - {"name"}
    different = sorted(key for key in keys if begun.get(key) != asked.get(key))
    if different or begun["name"] != asked.get("name"):
        raise PdflowError(
            f"{folder} belongs to an unfinished run with other "
            f"{' and '.join(different) or 'options'}: repeat that command to finish it, or delete "
            "the folder to begin anew."
        )


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


def _write_job(path: Path, job: dict[str, Any]) -> None:
    """Write what a run is: completely, or not at all."""
    with writing(path):
        temporary = path.with_name(path.name + ".tmp")
        with temporary.open("w", encoding="utf-8") as file:
            json.dump(job, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Make a folder, and refuse one that another process works on; its lock ends with it."""
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / LOCK).touch()
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    with (folder / LOCK).open("r+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise PdflowError(
                f"{folder} is in use: another pdflow works on the same output; wait for it."
            ) from None
        except OSError:  # a file system without locks
            pass
        yield
