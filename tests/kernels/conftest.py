"""Triton kernels are tested on a CUDA device, or else by Triton's interpreter on the CPU."""

from __future__ import annotations

import os

import pytest
import torch

if not torch.cuda.is_available():
    # Read when a kernel is defined, so it must be set before any kernel module is imported.
    os.environ["TRITON_INTERPRET"] = "1"


@pytest.fixture
def device() -> str:
    """The device on which Triton kernels run here."""
    pytest.importorskip("triton", reason="Triton is not installed")
    return "cuda" if torch.cuda.is_available() else "cpu"
