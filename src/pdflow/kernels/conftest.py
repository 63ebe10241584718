"""Doctest collection imports every module; the Triton kernels only where Triton is installed."""

from __future__ import annotations

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("triton") else ["*triton_*.py"]
