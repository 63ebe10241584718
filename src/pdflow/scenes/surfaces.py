"""All surfaces by name: `SURFACES[name](rng)` draws one with random parameters."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pdflow.scenes.objects import OBJECTS
from pdflow.scenes.places import PLACES
from pdflow.scenes.surface import Surface

SURFACES: dict[str, Callable[[np.random.Generator], Surface]] = {**OBJECTS, **PLACES}
