"""PDFlow: encode a noisy patch, filter the noise out of its code, decode the clean patch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise

import torch
from torch import Tensor, nn

from pdflow.errors import PdflowError
from pdflow.flow.actnorm import ActNorm
from pdflow.flow.augment import CONDITIONS, FLOWS, NORMS, Augmentation, standard_normal_log_density
from pdflow.flow.bijection import Bijection
from pdflow.flow.block import Block, Flow
from pdflow.flow.coupling import Coupling, kept_channels
from pdflow.flow.filters import FILTERS, INITS, make_filter
from pdflow.flow.permutation import InvertibleLinear, Permutation, Reverse
from pdflow.flow.units import EdgeUnit, LinearUnit
from pdflow.kernels.graph import patch_graph

COUPLINGS = ("affine", "additive")
PERMUTATIONS = ("inv1x1", "inv1x1-identity", "random", "reverse")
DECODERS = ("inverse", "mlp")
LEAST_NOISE = 1e-3
"""Noise, in patch radii, below which a network that is told the noise sees no difference."""

LEFT_BY_A_PASS = 0.3
"""Share of the noise that a network is told is left when its own output comes in again."""
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
    """Everything that decides a network's shape. Checked when made.

    edge_neighbours   K of the EdgeUnit in each of the L blocks; 0 gives that block LinearUnits
    augment_dims      D_a; 0 is the vanilla flow
    hidden            D_h of all transformation units
    coupling          "affine" or "additive"; clamp bounds the affine log-scale
    permutation       first layer of a block: "inv1x1" (random orthogonal at the start),
                      "inv1x1-identity" (identity at the start), "random" or "reverse"
    filter            "lcc", "lbm" or "fbm"; masked_dims is D_m of fbm
    filter_init       "paper" or "authors"
    condition         condition net of the augmentation: "absolute" (released weights), "edge"
                      (paper's text) or "graph" (condition_layers EdgeUnits), over
                      condition_neighbours points
    augment_flow      "couplings" (paper) or "affine"
    augment_norm      "batch" (released weights) or "none"
    noise_conditioning  whether the condition net is told the noise of a patch
    told_noise        shares of a cloud's noise that it is told when clouds are denoised: in a
                      single pass, in the first of several, and in later ones
    decoder           "inverse" flow, or the "mlp" of the ablation
    patch_points      N the network is meant for
    patch_radius      smallest and largest radius of the patches it was trained on
    centred           whether those had their seed at the origin
    pass_noise        noise, in patch radii, above which another pass pays: one number a pass
    part_noise        noise, in patch radii: where it exceeds the second number, a cloud is split
                      into parts in which it is at most the first (partition denoising)
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
    told_noise: tuple[float, float, float] = (1.0, 1.0, LEFT_BY_A_PASS)
    decoder: str = "inverse"
    patch_points: int = 1024
    patch_radius: tuple[float, float] = (0.1, 0.6)
    centred: bool = False
    pass_noise: tuple[float, ...] = (0.04, 0.12)
    part_noise: tuple[float, float] = (0.08, 0.14)
    point_dims: int = 3

    def __post_init__(self) -> None:
        object.__setattr__(self, "edge_neighbours", tuple(self.edge_neighbours))
        object.__setattr__(self, "patch_radius", tuple(self.patch_radius))
        object.__setattr__(self, "pass_noise", tuple(self.pass_noise))
        object.__setattr__(self, "part_noise", tuple(self.part_noise))
        object.__setattr__(self, "told_noise", tuple(self.told_noise))
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
                _refuse(f"{name} is {getattr(self, name)!r}", f"choose one of {choices}")
        if not self.edge_neighbours:
            _refuse("edge_neighbours is empty", "name K for at least one block")
        if self.augment_dims < 0:
            _refuse(f"augment_dims is {self.augment_dims}", "D_a must be 0 or more")
        for name in _POSITIVE:
            if getattr(self, name) < 1:
                _refuse(f"{name} is {getattr(self, name)}", "it must be 1 or more")
        if min(self.edge_neighbours) < 0 or self.neighbours > self.patch_points:
            _refuse(
                f"K is {self.neighbours} or below 0 in patches of {self.patch_points} points",
                "keep 0 <= K <= N",
            )
        if self.noise_conditioning and not self.augment_dims:
            _refuse("noise_conditioning is on without a condition net", "keep D_a above 0")
        if self.channels < 2:
            _refuse(f"a point has {self.channels} channel", "D_p + D_a must be 2 or more")
        if not 0 <= self.masked_dims <= self.channels:
            _refuse(f"masked_dims is {self.masked_dims}", f"keep 0 <= D_m <= {self.channels}")
        if len(self.patch_radius) != 2 or not 0 < self.patch_radius[0] <= self.patch_radius[1]:
            _refuse(f"patch_radius is {self.patch_radius}", "give 0 < smallest <= largest")
        if len(self.told_noise) != 3 or min(self.told_noise) <= 0:
            _refuse(f"told_noise is {self.told_noise}", "give three shares above 0")
        if len(self.part_noise) != 2 or not 0 < self.part_noise[0] <= self.part_noise[1]:
            _refuse(f"part_noise is {self.part_noise}", "give 0 < goal <= limit")
        if self.clamp <= 0:
            _refuse(f"clamp is {self.clamp}", "it must be positive")

    @property
    def channels(self) -> int:
        """D = D_p + D_a."""
        return self.point_dims + self.augment_dims

    @property
    def neighbours(self) -> int:
        """Neighbours that the graph of a patch must hold."""
        condition = self.condition_neighbours if self.augment_dims else 0
        return max(*self.edge_neighbours, condition, 0)


_PAPER = FlowConfig()
PRESETS: dict[str, FlowConfig] = {
    "paper-lcc": _PAPER,
    "paper-lbm": replace(_PAPER, filter="lbm"),
    "paper-fbm": replace(_PAPER, filter="fbm"),
    "paper-l4": replace(_PAPER, edge_neighbours=(32, 16, 32, 16)),
    "paper-l12": replace(_PAPER, edge_neighbours=(32, 16, 32, 16, 32) + (0,) * 7),
    "paper-mlp": replace(_PAPER, decoder="mlp"),
}
"""The networks of the paper: filters of Table 4, depths and MLP decoder of Table 3."""


@dataclass(frozen=True)
class Encoding:
    """A patch in latent space.

    code     (B, N, D) z, Eq. (1)
    log_det  (B, N) per-point terms of log |det df/dh|
    log_q    (B, N) per-point terms of log q(p_bar | p); zero without augmentation
    """

    code: Tensor
    log_det: Tensor
    log_q: Tensor

    def log_likelihood(self) -> Tensor:
        """(B, N) per-point terms of the ELBO, Eq. (7), for the eps that was used."""
        return standard_normal_log_density(self.code) + self.log_det - self.log_q


class PDFlow(nn.Module):
    """The network of Fig. 3. Points are (B, N, D_p), graphs (B, N, K) from `graph`."""

    def __init__(self, config: FlowConfig) -> None:
        super().__init__()
        self.config = config
        self.augmentation = (
            Augmentation(
                config.point_dims + config.noise_conditioning,
                config.augment_dims,
                condition=config.condition,
                k=config.condition_neighbours,
                condition_hidden=config.condition_hidden,
                condition_layers=config.condition_layers,
                features=config.condition_features,
                hidden=config.augment_hidden,
                flow=config.augment_flow,
                steps=config.augment_steps,
                norm=config.augment_norm,
            )
            if config.augment_dims
            else None
        )
        self.flow = Flow([_block(config, k) for k in config.edge_neighbours])
        self.filter = make_filter(
            config.filter, config.channels, config.masked_dims, config.filter_init
        )
        self.mlp = _mlp(config) if config.decoder == "mlp" else None

    def graph(self, points: Tensor) -> Tensor:
        """(B, N, K): the one static graph of a patch, used in both directions.

        A patch with fewer than K points repeats each point itself as its last neighbours.
        """
        if points.ndim != 3 or points.shape[-1] != self.config.point_dims:
            raise PdflowError(
                f"Patches must have shape (B, N, {self.config.point_dims}), "
                f"not {tuple(points.shape)}: pass a batch of patches."
            )
        have = min(self.config.neighbours, points.shape[1])
        graph = patch_graph(points, have)
        missing = self.config.neighbours - have
        return torch.cat([graph, graph[..., :1].expand(-1, -1, missing)], -1) if missing else graph

    def sample_eps(
        self, points: Tensor, generator: torch.Generator | None = None, shared: bool = False
    ) -> Tensor:
        """eps (B, N, D_a) of A_s; `shared` draws one eps for all patches of the batch."""
        batch, count, _ = points.shape
        eps = torch.randn(
            (1 if shared else batch, count, self.config.augment_dims),
            generator=generator,
            dtype=points.dtype,
            device=points.device,
        )
        return eps.expand(batch, -1, -1)

    def encode(
        self, points: Tensor, graph: Tensor, eps: Tensor | None = None, sigma: Tensor | None = None
    ) -> Encoding:
        """Augment and map to latent space, Eq. (6) and (1). Without eps it is zero.

        sigma  (B,) noise of the patches in their own frame, for a network that is told
        """
        return self.encode_augmented(*self.augment(points, graph, eps, sigma), graph)

    def augment(
        self, points: Tensor, graph: Tensor, eps: Tensor | None = None, sigma: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """h (B, N, D), the points with their extra dimensions, Eq. (6), and log_q (B, N)."""
        if self.augmentation is None:
            return points, points.new_zeros(points.shape[:2])
        if eps is None:
            eps = points.new_zeros(*points.shape[:2], self.config.augment_dims)
        augmented, log_q = self.augmentation(self._with_noise(points, sigma), graph, eps)
        return torch.cat([points, augmented], -1), log_q

    def encode_augmented(self, h: Tensor, log_q: Tensor, graph: Tensor) -> Encoding:
        """Map what `augment` returned to latent space, Eq. (1)."""
        code, log_det = self.flow.transform(h, graph)
        return Encoding(code, log_det, log_q)

    def decode(self, code: Tensor, graph: Tensor) -> Tensor:
        """Points (B, N, D_p) from a latent code, Eq. (3): the extra dimensions are cut off."""
        if self.mlp is not None:
            points: Tensor = self.mlp(code)
            return points
        return self.flow.untransform(code, graph)[0][..., : self.config.point_dims]

    def log_prob(
        self, points: Tensor, graph: Tensor, eps: Tensor | None = None, sigma: Tensor | None = None
    ) -> Tensor:
        """(B,): the ELBO of Eq. (7) for one eps; exact where D_a = 0."""
        return self.log_prob_points(points, graph, eps, sigma).sum(1)

    def log_prob_points(
        self, points: Tensor, graph: Tensor, eps: Tensor | None = None, sigma: Tensor | None = None
    ) -> Tensor:
        """(B, N): each point's share of `log_prob`."""
        return self.encode(points, graph, eps, sigma).log_likelihood()

    def denoise_patches(
        self, points: Tensor, eps: Tensor | None = None, sigma: Tensor | None = None
    ) -> Tensor:
        """Clean patches (B, N, D_p): encode, filter, decode. Without eps it is deterministic.

        sigma  (B,) noise of the patches in their own frame, for a network that is told
        """
        graph = self.graph(points)
        code = self.encode(points, graph, eps, sigma).code
        return self.decode(self.filter(code), graph)

    def _with_noise(self, points: Tensor, sigma: Tensor | None) -> Tensor:
        """What the condition net sees: points (B, N, D_p), and the noise where it is told.

        The noise is the log of the patch radius over it, which is positive: a relu comes later.
        """
        if not self.config.noise_conditioning:
            return points
        if sigma is None:
            raise PdflowError("This network is told the noise of its patches: pass their sigma.")
        radius = self.config.patch_radius[1]
        level = -torch.log((sigma / radius).clamp_min(LEAST_NOISE))
        return torch.cat([points, level[:, None, None].expand(*points.shape[:2], 1)], -1)


def _block(config: FlowConfig, k: int) -> Block:
    """One flow block: permutation, actnorm, coupling 1, reverse, coupling 2."""
    channels = config.channels
    mixing: dict[str, Callable[[], Bijection]] = {
        "inv1x1": lambda: InvertibleLinear(channels),
        "inv1x1-identity": lambda: InvertibleLinear(channels, identity=True),
        "random": lambda: Permutation.random(channels),
        "reverse": Reverse,
    }
    kept = kept_channels(channels)
    shape = (kept, config.hidden, channels - kept, 2 if config.coupling == "affine" else 1)
    unit = EdgeUnit(*shape, k) if k else LinearUnit(*shape)
    return Block(
        mixing[config.permutation](),
        ActNorm(channels),
        Coupling(channels, unit, config.clamp),
        Coupling(channels, LinearUnit(*shape), config.clamp),
    )


def _mlp(config: FlowConfig) -> nn.Sequential:
    """Decoder of "forward + MLP", Table 3; widths chosen to meet its 578K parameters."""
    widths = (config.channels, 256, 256, 120)
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(widths):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(widths[-1], config.point_dims))


def _refuse(problem: str, remedy: str) -> None:
    raise PdflowError(f"Bad network config: {problem}; {remedy}.")
