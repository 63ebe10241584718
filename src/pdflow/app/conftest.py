"""Doctest collection imports every module: skip the app if its extra is missing."""

from __future__ import annotations

from importlib.util import find_spec

_NEEDED = ("starlette", "uvicorn", "filelock")

collect_ignore_glob = [] if all(map(find_spec, _NEEDED)) else ["*.py"]
