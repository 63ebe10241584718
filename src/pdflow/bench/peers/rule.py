"""The neighbourhood of a peer: one rule for all, from the noise and the spacing of the cloud.

A neighbourhood must be wider than the noise, and contain more than a few points:

    radius^2 = (spacings * spacing)^2 + (noises * noise)^2,    k = pi radius^2 / spacing^2

Noise and spacing are estimated from the noisy cloud (`Scale`); the true values are not used. So a
peer has two numbers for all densities and noise levels, instead of being tuned by hand for each.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from importlib import resources

from pdflow.bench.cases import Scale

FEWEST, MOST = 12, 400
"""Bounds of k: a quadric needs six points, and time grows with k."""


@dataclass(frozen=True)
class Neighbourhood:
    """A ball of `radius` and the number `k` of points in it; `noise` is the estimated one."""

    radius: float
    k: int
    noise: float


@dataclass(frozen=True)
class Rule:
    """The parameters of a peer.

    spacings, noises  see above
    repeat            number of runs, each on the output of the one before
    strength          the one further parameter of a tool, if it has one
    """

    spacings: float
    noises: float
    repeat: int = 1
    strength: float = 0.0

    def neighbourhood(self, scale: Scale) -> Neighbourhood:
        """The neighbourhood in a cloud of that scale.

        >>> Rule(3.0, 4.0).neighbourhood(Scale(noise=0.01, spacing=0.01))
        Neighbourhood(radius=0.05, k=79, noise=0.01)
        """
        radius = math.hypot(self.spacings * scale.spacing, self.noises * scale.noise)
        k = round(math.pi * (radius / scale.spacing) ** 2)
        return Neighbourhood(radius, min(max(k, FEWEST), MOST), scale.noise)


def tuned_rules() -> dict[str, Rule]:
    """Peer name -> the parameters found by `benchmarks/fit/tune_peers.py`."""
    text = resources.files("pdflow.bench.peers").joinpath("parameters.json").read_text()
    return {name: Rule(**values["rule"]) for name, values in json.loads(text).items()}
