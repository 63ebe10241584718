"""Optional dependencies: import them late, and name the extra when one is missing."""

from __future__ import annotations

import importlib
from types import ModuleType

from pdflow.errors import MissingExtraError


def require(module: str, extra: str, purpose: str) -> ModuleType:
    """Import `module`, or say which extra brings it.

    >>> require("json", extra="las", purpose="Reading LAS").__name__
    'json'
    >>> require("no_such_module", extra="las", purpose="Reading LAS")
    Traceback (most recent call last):
    ...
    pdflow.errors.MissingExtraError: Reading LAS needs an extra: pip install 'pdflow[las]'.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtraError(
            f"{purpose} needs an extra: pip install 'pdflow[{extra}]'."
        ) from error
