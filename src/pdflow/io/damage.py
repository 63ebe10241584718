"""Whatever a codec throws at a damaged file becomes one sentence that names the file."""

from __future__ import annotations

from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any

from pdflow.errors import PdflowError

_LONGEST_REASON = 120


class Damage(AbstractContextManager[None]):
    """Turns any error inside into `path: what (the error's first line).`

    Codecs report damage by many exceptions; a Rust panic is not even an `Exception`.
    """

    def __init__(self, path: Any, what: str) -> None:
        self._path, self._what = path, what

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        if error is None or isinstance(error, (PdflowError, KeyboardInterrupt, SystemExit)):
            return
        raise PdflowError(f"{self._path}: {self._what} ({reason(error)}).") from error


def reason(error: BaseException) -> str:
    """The first line of an error of other software, cut where it is too long for a sentence.

    >>> reason(ValueError("no\\nmore")), len(reason(ValueError("x" * 1000)))
    ('no', 120)
    """
    line = next(iter(str(error).splitlines()), type(error).__name__)
    return line if len(line) <= _LONGEST_REASON else f"{line[: _LONGEST_REASON - 3]}..."
