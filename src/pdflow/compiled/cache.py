"""Machine code on disk: numba's cache, made to survive damage.

numba writes two kinds of pickles into `__pycache__` beside a module, or into NUMBA_CACHE_DIR, or
into the user's cache folder: an index for each function, and a file for each signature. It reads
them without a check. A cut or flipped byte then ends every run with an error, or runs as machine
code. So each file here starts with a checksum, and says which source and signature it is for. A
file that does not fit is compiled again and overwritten. No error of the cache reaches the caller.

A pickle runs what its author wants. So a file is read only if it belongs to this user or to root,
and nobody else may write to it. This is the only place where pdflow reads pickles.

The names differ from those that numba gives, because versions of pdflow without checksums may share
the folder.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

from numba.core.caching import CompileResultCacheImpl, FunctionCache, IndexDataCacheFile


class _Location(CompileResultCacheImpl):
    """Names and folder of the files of a function."""

    def get_filename_base(self, fullname: str, abiflags: str) -> str:
        return f"checked-{super().get_filename_base(fullname, abiflags)}"


class _CheckedFiles(IndexDataCacheFile):
    """The index and the data files of a function, each behind a checksum."""

    def load(self, key: Any) -> Any:
        """The data of a signature; None if there are none, or others."""
        entry = super().load(key)
        # Two processes that write at once, or one that is killed, can leave an index whose
        # entries lead to files of another signature or of an older source.
        return entry[2] if entry is not None and entry[:2] == (self._source_stamp, key) else None

    def save(self, key: Any, data: Any) -> None:
        """Write the data of a signature and add it to the index."""
        super().save(key, (self._source_stamp, key, data))

    def _load_index(self) -> dict[Any, str]:
        stamp, names = self._load(Path(self._index_path)) or (None, {})
        return names if stamp == self._source_stamp else {}

    def _save_index(self, overloads: dict[Any, str]) -> None:
        self._save(self._index_path, (self._source_stamp, overloads))

    def _load_data(self, name: str) -> Any:
        return self._load(Path(self._data_path(name)))

    def _save_data(self, name: str, data: Any) -> None:
        self._save(self._data_path(name), data)

    def _load(self, path: Path) -> Any:
        """What `_save` wrote; None if the file is absent, damaged, or from another numba."""
        try:
            with path.open("rb") as file:
                if not _is_own(os.fstat(file.fileno())):
                    return None
                content = file.read()
            size = hashlib.sha256().digest_size
            if content[:size] != self._checksum(content[size:]):
                return None
            return pickle.loads(content[size:])
        except Exception:  # classes that moved raise whatever their import raises
            return None

    def _save(self, path: str, what: Any) -> None:
        content = self._dump(what)
        with self._open_for_write(path) as file:
            if hasattr(os, "fchmod"):
                os.fchmod(file.fileno(), 0o644)  # whatever the umask says, as `_is_own` asks for it
            file.write(self._checksum(content) + content)

    def _checksum(self, content: bytes) -> bytes:
        return hashlib.sha256(self._version.encode() + content).digest()


def _is_own(state: os.stat_result) -> bool:
    """Whether only this user or root can have written a file; Windows has no such owners."""
    if not hasattr(os, "geteuid"):
        return True
    return state.st_uid in (os.geteuid(), 0) and not state.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


class LoopCache(FunctionCache):
    """Compiled signatures of a function on disk. It never raises: a cache is not worth an error."""

    _impl_class = _Location

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        stamp = self._impl.locator.get_source_stamp()
        self._cache_file = _CheckedFiles(self._cache_path, self._impl.filename_base, stamp)

    @staticmethod
    def of(function: Callable[..., Any]) -> LoopCache | None:
        """The cache of a function, or None where no folder can be written to."""
        try:
            return LoopCache(function)
        except (RuntimeError, OSError):  # numba found no folder, or no source file
            return None

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The machine code of a signature, or None."""
        try:
            return super().load_overload(sig, target_context)
        except Exception:
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep the machine code of a signature; a full disk or a lost folder is no error."""
        try:
            super().save_overload(sig, data)
        except Exception:
            return
