"""Atomic writes: a crash or a full disk leaves the old file, never half of a new one."""

from __future__ import annotations

import glob
import os
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from pdflow.errors import PdflowError

MARK = ".pdflow-"
"""In the name of every temporary file, after a dot and a part of the target's name."""

NO_STANDARD_OUTPUT = "pdflow does not write to standard output: name a file instead of -."

STALE = 86_400.0
"""Seconds without a change after which nobody is writing a temporary file any more."""


_UNFINISHED: set[Path] = set()


def discard_unfinished() -> None:
    """Remove all temporary files of this process, which is about to end without its own clean-up.

    >>> discard_unfinished()
    """
    for temporary in list(_UNFINISHED):
        # A writer that begins again moves its first try to a longer name.
        for file in temporary.parent.glob(f"{glob.escape(temporary.name)}*"):
            file.unlink(missing_ok=True)


@contextmanager
def atomic_path(path: Path, suffix: str | None = None) -> Iterator[Path]:
    """A temporary path beside `path` that replaces it when the block ends without an error.

    The new file is flushed to disk before it replaces the old one. On any error, Ctrl-C included,
    it is removed and `path` stays as it was. A link is followed: the file behind it is replaced.
    The temporary path ends in `suffix`, by default that of `path`. A killed process leaves it
    behind; a write to the same folder a day later removes it.
    """
    target = Path(os.path.realpath(path))
    _check_target(path, target)
    _remove_stale_files(target.parent)
    try:
        handle, name = tempfile.mkstemp(
            prefix=f".{target.stem[:40]}{MARK}",
            suffix=target.suffix if suffix is None else suffix,
            dir=target.parent,
        )
    except OSError as error:
        raise PdflowError(f"{path} cannot be written ({error.strerror}).") from error
    os.close(handle)
    temporary = Path(name)
    _UNFINISHED.add(temporary)
    try:
        yield temporary
        temporary.chmod(target.stat().st_mode & 0o7777 if target.exists() else 0o666 & ~_umask())
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        temporary.replace(target)
    except OSError as error:
        raise PdflowError(
            f"{path} could not be written ({error.strerror or error}); nothing was changed."
        ) from error
    finally:
        temporary.unlink(missing_ok=True)
        _UNFINISHED.discard(temporary)


@contextmanager
def moved_aside(path: Path) -> Iterator[Path]:
    """Move an unfinished file to a longer name; it is removed when the block ends.

    So a writer can begin again at `path`, and copy what it has written so far.
    """
    handle, name = tempfile.mkstemp(
        prefix=f"{path.name[:60]}.", suffix=path.suffix, dir=path.parent
    )
    os.close(handle)
    try:
        path.replace(name)
        yield Path(name)
    finally:
        Path(name).unlink(missing_ok=True)


@cache
def _remove_stale_files(folder: Path) -> None:
    """Remove what killed processes left in a folder; once in a process, as folders may be large."""
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if not (entry.name.startswith(".") and MARK in entry.name):
                    continue
                state = entry.stat(follow_symlinks=False)
                if stat.S_ISREG(state.st_mode) and time.time() - state.st_mtime > STALE:
                    Path(entry).unlink(missing_ok=True)
    except OSError:  # of another user, or a folder that may not be listed
        return


def _check_target(path: Path, target: Path) -> None:
    """Refuse to replace a directory, a device such as /dev/null, or a write-protected file."""
    if str(path) == "-":
        raise PdflowError(NO_STANDARD_OUTPUT)
    try:
        if not target.parent.is_dir():
            raise PdflowError(f"{path}: folder {target.parent} does not exist: make it first.")
        mode = target.stat().st_mode
    except FileNotFoundError:
        return
    except OSError as error:
        raise PdflowError(f"{path} cannot be written ({error.strerror}).") from error
    if stat.S_ISDIR(mode):
        raise PdflowError(f"{path} is a directory: name the output file itself.")
    if not stat.S_ISREG(mode):
        raise PdflowError(f"{path} is a device or a pipe: name an output file.")
    if not os.access(target, os.W_OK):
        raise PdflowError(f"{path} is write-protected: name another output file.")


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
