"""Noise: models that make it, and the estimate of its level.

Importing this package is cheap: a name is imported from its module on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pdflow.noise.lidar import simulate_lidar as simulate_lidar
    from pdflow.noise.models import KINDS as KINDS
    from pdflow.noise.models import add_noise as add_noise

_LAZY = {
    "KINDS": "pdflow.noise.models",
    "add_noise": "pdflow.noise.models",
    "simulate_lidar": "pdflow.noise.lidar",
}

__all__ = sorted(_LAZY)


def __getattr__(name: str) -> Any:
    """Import a public name from its module on first use (PEP 562)."""
    if name not in _LAZY:
        raise AttributeError(f"module 'pdflow.noise' has no attribute {name!r}")
    value = getattr(importlib.import_module(_LAZY[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
