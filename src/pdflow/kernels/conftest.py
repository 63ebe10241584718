"""Doctest collection imports every module: skip the Triton kernels if Triton is missing."""

from __future__ import annotations

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("triton") else ["*triton_*.py"]
