"""Noise: models that make it, and the estimate of its level.

Importing this package is cheap: a name is imported from its module on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pdflow.lazy import lazy_names

if TYPE_CHECKING:
    from pdflow.noise.kinds import KINDS as KINDS
    from pdflow.noise.lidar import simulate_lidar as simulate_lidar
    from pdflow.noise.models import add_noise as add_noise
else:
    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            "kinds": ["KINDS"],
            "lidar": ["simulate_lidar"],
            "models": ["add_noise"],
        },
    )
