"""Files with a checksum at their end: complete and as they were written, or told to be damaged."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdflow.errors import PdflowError

SEAL = 4
"""Bytes of the checksum."""

_BLOCK = 1 << 24


class DamagedError(PdflowError):
    """A file of a run is not what was written."""


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn a full disk and the like into one sentence."""
    try:
        yield
    except OSError as error:
        raise PdflowError(
            f"{path} could not be written ({error.strerror or error}): make room, and repeat the "
            "command to go on."
        ) from error


def write_sealed(path: Path, data: bytes | memoryview) -> None:
    """Write a file and its checksum: completely, or not at all."""
    with writing(path):
        path.parent.mkdir(exist_ok=True)
        temporary = path.with_name(f"{path.name}.{os.getpid()}")
        try:
            with temporary.open("wb") as file:
                file.write(data)
                file.write(zlib.crc32(data).to_bytes(SEAL, "little"))
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)


def read_sealed(path: Path) -> bytes:
    """What `write_sealed` wrote to a file.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_sealed(Path(folder, "file"), b"words")
    ...     read_sealed(Path(folder, "file"))
    b'words'
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise _damaged(path, error.strerror or str(error)) from error
    data, seal = content[:-SEAL], content[-SEAL:]
    if len(seal) < SEAL or zlib.crc32(data).to_bytes(SEAL, "little") != seal:
        raise _damaged(path, "its checksum is wrong")
    return data


def write_arrays(path: Path, **arrays: Any) -> None:
    """Write named arrays of numbers, sealed."""
    buffer = BytesIO()
    np.savez(buffer, **arrays)
    write_sealed(path, buffer.getbuffer())


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """What `write_arrays` wrote to a file."""
    with np.load(BytesIO(read_sealed(path))) as file:
        return dict(file.items())


def checksum(path: Path) -> int:
    """The checksum of a whole file."""
    total = 0
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            total = zlib.crc32(block, total)
    return total


def is_sound(path: Path) -> bool:
    """Whether a file is as `write_sealed` wrote it."""
    left, total = path.stat().st_size - SEAL, 0
    with path.open("rb") as file:
        while left > 0 and (block := file.read(min(left, _BLOCK))):
            total, left = zlib.crc32(block, total), left - len(block)
        return left == 0 and file.read() == total.to_bytes(SEAL, "little")


def _damaged(path: Path, why: str) -> DamagedError:
    return DamagedError(f"{path} is damaged ({why}): repeat the command, which makes it anew.")
