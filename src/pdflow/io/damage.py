"""Errors as one sentence that names the file, whatever a codec raises on damaged bytes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pdflow.errors import PdflowError

_LONGEST_REASON = 120


@contextmanager
def explain_damage(path: Any, what: str) -> Iterator[None]:
    """Turn any error in the block into `path: what (first line of the error).`

    Codecs report damage with many exceptions; a Rust panic is not even an `Exception`.
    """
    try:
        yield
    except (PdflowError, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        raise PdflowError(f"{path}: {what} ({reason(error)}).") from error


@contextmanager
def name_file(path: Any) -> Iterator[None]:
    """Prefix a PdflowError with the path, for code that does not know the file."""
    try:
        yield
    except PdflowError as error:
        raise PdflowError(f"{path}: {error}") from error


def reason(error: BaseException) -> str:
    """The first line of another library's error, shortened to fit into a sentence.

    >>> reason(ValueError("no\\nmore")), len(reason(ValueError("x" * 1000)))
    ('no', 120)
    """
    line = next(iter(str(error).splitlines()), type(error).__name__)
    return line if len(line) <= _LONGEST_REASON else f"{line[: _LONGEST_REASON - 3]}..."
