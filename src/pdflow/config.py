"""What a network is, and how it is used: two frozen configs that travel in every weight file."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pdflow.errors import PdflowError
from pdflow.flow.augment import CONDITIONS, FLOWS, NORMS
from pdflow.flow.filters import FILTERS, INITS

COUPLINGS = ("affine", "additive")
PERMUTATIONS = ("inv1x1", "inv1x1-identity", "random", "reverse")
DECODERS = ("inverse", "mlp")

NOISE_SHARE_AFTER_PASS = 0.3
"""Share of the noise that a network is conditioned on when its own output comes in again."""

MOVED_SETTINGS = {
    "patch_radius": "patch_radius",
    "centred": "centred",
    "told_noise": "conditioning_scales",
    "pass_noise": "pass_thresholds",
    "part_noise": "partition_thresholds",
}
"""Settings of inference that the first weight files and recipes list with those of the
architecture, and their names today."""

LARGEST = 65_536
"""No width, number of layers or patch is larger: what comes in a file may be a crafted claim."""

MOST_NEIGHBOURS = 1024

_POSITIVE = (
    "hidden",
    "condition_neighbours",
    "condition_hidden",
    "condition_features",
    "condition_layers",
    "augment_hidden",
    "augment_steps",
    "patch_points",
    "point_dims",
)


@dataclass(frozen=True)
class FlowConfig:
    """The architecture: everything that decides what a network computes, except its weights.

    The defaults are the paper's network with LCC; the recipes `paper-*` have its variants.

    edge_neighbours   K of the EdgeUnit in each of the L blocks; 0 gives that block LinearUnits
    augment_dims      D_a; 0 is the vanilla flow
    hidden            D_h of all transformation units
    coupling          "affine" or "additive"; clamp bounds the affine log-scale
    permutation       first layer of a block: "inv1x1" (random orthogonal at the start),
                      "inv1x1-identity" (identity at the start), "random" or "reverse"
    filter            "lcc", "lbm", "fbm", or any name in `pdflow.flow.filters.FILTERS`;
                      masked_dims is D_m of fbm
    filter_init       "paper" or "authors"
    condition         condition net of the augmentation: "absolute" (released weights), "edge"
                      (paper's text) or "graph" (condition_layers EdgeUnits), over
                      condition_neighbours points
    augment_flow      "couplings" (paper) or "affine"
    augment_norm      "batch" (released weights) or "none"
    noise_conditioning  whether the condition net sees the noise of a patch
    noise_unit        length that the noise is divided by before the condition net sees it, in the
                      frame of the patches: their largest radius
    decoder           "inverse" flow, or the "mlp" of the ablation
    patch_points      N the network is meant for
    point_dims        D_p
    """

    edge_neighbours: tuple[int, ...] = (32, 16, 32, 16, 32, 0, 0, 0)
    augment_dims: int = 32
    hidden: int = 64
    coupling: str = "affine"
    clamp: float = 1.9
    permutation: str = "inv1x1"
    filter: str = "lcc"
    masked_dims: int = 6
    filter_init: str = "paper"
    condition: str = "absolute"
    condition_neighbours: int = 12
    condition_hidden: int = 32
    condition_layers: int = 1
    condition_features: int = 64
    augment_flow: str = "couplings"
    augment_hidden: int = 64
    augment_steps: int = 3
    augment_norm: str = "batch"
    noise_conditioning: bool = False
    noise_unit: float = 0.6
    decoder: str = "inverse"
    patch_points: int = 1024
    point_dims: int = 3

    def __post_init__(self) -> None:
        object.__setattr__(self, "edge_neighbours", tuple(self.edge_neighbours))
        for name, allowed in {
            "coupling": COUPLINGS,
            "permutation": PERMUTATIONS,
            "filter": FILTERS,
            "filter_init": INITS,
            "condition": CONDITIONS,
            "augment_flow": FLOWS,
            "augment_norm": NORMS,
            "decoder": DECODERS,
        }.items():
            if getattr(self, name) not in allowed:
                choices = ", ".join(allowed)
                self._refuse(f"{name} is {getattr(self, name)!r}", f"choose one of {choices}")
        for name in (*_POSITIVE, "augment_dims", "masked_dims"):
            self._check_whole(name, getattr(self, name))
        for k in self.edge_neighbours:
            self._check_whole("edge_neighbours", k)
        if not self.edge_neighbours:
            self._refuse("edge_neighbours is empty", "name K for at least one block")
        if self.augment_dims < 0:
            self._refuse(f"augment_dims is {self.augment_dims}", "D_a must be 0 or more")
        for name in _POSITIVE:
            if getattr(self, name) < 1:
                self._refuse(f"{name} is {getattr(self, name)}", "it must be 1 or more")
        if min(self.edge_neighbours) < 0 or self.neighbours > self.patch_points:
            self._refuse(
                f"K is {self.neighbours} or below 0 in patches of {self.patch_points} points",
                "keep 0 <= K <= N",
            )
        if self.neighbours > MOST_NEIGHBOURS:
            self._refuse(f"K is {self.neighbours}", f"keep it to {MOST_NEIGHBOURS}")
        if self.noise_conditioning and not self.augment_dims:
            self._refuse("noise_conditioning is on without a condition net", "keep D_a above 0")
        if self.channels < 2:
            self._refuse(f"a point has {self.channels} channel", "D_p + D_a must be 2 or more")
        if not 0 <= self.masked_dims <= self.channels:
            self._refuse(f"masked_dims is {self.masked_dims}", f"keep 0 <= D_m <= {self.channels}")
        for name in ("clamp", "noise_unit"):
            if not 0 < getattr(self, name) < math.inf:
                self._refuse(f"{name} is {getattr(self, name)}", "it must be positive")

    @property
    def channels(self) -> int:
        """D = D_p + D_a."""
        return self.point_dims + self.augment_dims

    @property
    def neighbours(self) -> int:
        """Neighbours that the graph of a patch must hold."""
        condition = self.condition_neighbours if self.augment_dims else 0
        return max(*self.edge_neighbours, condition, 0)

    @staticmethod
    def _check_whole(name: str, value: object) -> None:
        if type(value) is not int or value > LARGEST:
            FlowConfig._refuse(f"{name} is {value!r}", f"give a whole number up to {LARGEST}")

    @staticmethod
    def _refuse(problem: str, remedy: str) -> None:
        raise PdflowError(f"Bad network config: {problem}; {remedy}.")


@dataclass(frozen=True)
class InferenceConfig:
    """How a network is used: the frame of its patches, and when and how often it is applied.

    patch_radius          smallest and largest radius of the patches it was trained on
    centred               whether those had their seed at the origin
    conditioning_scales   factors on a cloud's noise before a network is conditioned on it: in a
                          first pass at one scale, in one at two scales, and in later passes
    pass_thresholds       noise, in patch radii, above which another pass pays: one number a pass
    partition_thresholds  noise, in patch radii: above the second number, a cloud is partitioned so
                          that the noise of each part is at most the first
    scale_thresholds      noise, in patch radii, instead of the former: a first pass has a fine and
                          a coarser answer, and the coarser one counts above the first number, may
                          replace the other above the second, and does above the third; empty: one
                          scale
    """

    patch_radius: tuple[float, float] = (0.1, 0.6)
    centred: bool = False
    conditioning_scales: tuple[float, float, float] = (1.0, 1.0, NOISE_SHARE_AFTER_PASS)
    pass_thresholds: tuple[float, ...] = (0.04, 0.12)
    partition_thresholds: tuple[float, float] = (0.08, 0.14)
    scale_thresholds: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        for name in (
            "patch_radius",
            "conditioning_scales",
            "pass_thresholds",
            "partition_thresholds",
            "scale_thresholds",
        ):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        if not _is_range(self.patch_radius):
            self._refuse("patch_radius", "give 0 < smallest <= largest")
        if len(self.conditioning_scales) != 3 or not all(
            0 < scale < math.inf for scale in self.conditioning_scales
        ):
            self._refuse("conditioning_scales", "give three factors above 0")
        if any(threshold <= 0 for threshold in self.pass_thresholds):
            self._refuse("pass_thresholds", "give numbers above 0")
        if not _is_range(self.partition_thresholds):
            self._refuse("partition_thresholds", "give 0 < goal <= limit")
        if self.scale_thresholds and not _is_rising(self.scale_thresholds):
            self._refuse("scale_thresholds", "give none, or three rising numbers above 0")

    @property
    def fixed_radius(self) -> float | None:
        """The radius that every patch is scaled to; None where patches keep the cloud's scale."""
        smallest, largest = self.patch_radius
        return smallest if smallest == largest else None

    def _refuse(self, name: str, remedy: str) -> None:
        raise PdflowError(f"Bad inference config: {name} is {getattr(self, name)}; {remedy}.")


def _is_range(bounds: tuple[float, ...]) -> bool:
    return len(bounds) == 2 and 0 < bounds[0] <= bounds[1] < math.inf


def _is_rising(thresholds: tuple[float, ...]) -> bool:
    return len(thresholds) == 3 and 0 < thresholds[0] < thresholds[1] < thresholds[2] < math.inf
