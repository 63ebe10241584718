"""Late imports: a package's names on first use, optional dependencies with a hint.

Every import of the package and every command begins with this module, so it imports little itself.
"""

from __future__ import annotations

import importlib
import os
import sys

from pdflow.errors import MissingExtraError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path
    from types import ModuleType
    from typing import Any


def lazy_names(
    package: str, modules: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """`__getattr__`, `__dir__` and `__all__` of a package that imports its names on first use.

    package  `__name__` of the package
    modules  module inside the package -> names to take from it

    PEP 562 lets a module have these functions. Type checkers do not follow them: they see the
    same names through the other branch.

        if TYPE_CHECKING:
            from pdflow.noise.models import add_noise as add_noise
        else:
            __getattr__, __dir__, __all__ = lazy_names(__name__, {"models": ["add_noise"]})
    """
    origin = {name: f"{package}.{module}" for module, names in modules.items() for name in names}
    public = sorted(origin)

    def get(name: str) -> Any:
        if name not in origin:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(origin[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return get, lambda: public, public


def require(module: str, extra: str, purpose: str) -> ModuleType:
    """Import an optional dependency, or name the extra that brings it.

    >>> require("json", extra="las", purpose="Reading LAS").__name__
    'json'
    >>> require("no_such_module", extra="las", purpose="Reading LAS")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    pdflow.errors.MissingExtraError: Reading LAS needs an extra: pip install ...
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtraError(f"{purpose} needs an extra: {install_hint(extra)}.") from error


def install_hint(extra: str) -> str:
    """The command that adds an extra to this very installation: a clone, or the package index.

    >>> "[las]" in install_hint("las")
    True
    """
    from pathlib import Path

    quote = '"' if os.name == "nt" else "'"  # cmd.exe takes single quotes literally
    source = Path(__file__).parents[2]
    if (source / "pyproject.toml").is_file():
        return f"pip install -e {quote}{source}[{extra}]{quote}"
    return f"pip install {quote}{_installed_from() or 'pdflow'}[{extra}]{quote}"


def _installed_from() -> Path | None:
    """The folder that pip installed this package from, if it is still there."""
    import json
    from importlib.metadata import PackageNotFoundError, distribution
    from pathlib import Path
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    try:
        origin = json.loads(distribution("pdflow").read_text("direct_url.json") or "{}")
    except (PackageNotFoundError, ValueError):
        return None
    url = urlsplit(str(origin.get("url", "")))
    folder = Path(url2pathname(url.path))
    return folder if url.scheme == "file" and folder.is_dir() else None
