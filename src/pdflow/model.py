"""PDFlow: encode a noisy patch, filter the noise out of its code, decode the clean patch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn

from pdflow.config import FlowConfig, InferenceConfig
from pdflow.errors import PdflowError
from pdflow.flow.actnorm import ActNorm
from pdflow.flow.augment import Augmentation, standard_normal_log_density
from pdflow.flow.bijection import Bijection
from pdflow.flow.block import Block, Flow
from pdflow.flow.coupling import Coupling, kept_channels
from pdflow.flow.filters import FILTERS
from pdflow.flow.permutation import InvertibleLinear, Permutation, Reverse
from pdflow.flow.units import EdgeUnit, LinearUnit
from pdflow.kernels.graph import patch_graph

LEAST_NOISE = 1e-3
"""Noise, in units of `noise_unit`, below which noise conditioning makes no difference."""


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
    """The network of Fig. 3. Points are (B, N, D_p), graphs (B, N, K) from `graph`.

    config     the architecture
    inference  defaults for running it, stored with the weights

    `pdflow.load_model` makes one with trained weights.

    >>> config = FlowConfig(edge_neighbours=(8, 0), augment_dims=5, hidden=8, patch_points=64)
    >>> model = PDFlow(config).eval()
    >>> patches = torch.randn(2, 64, 3)
    >>> with torch.no_grad():
    ...     model.denoise_patches(patches).shape
    torch.Size([2, 64, 3])
    """

    def __init__(self, config: FlowConfig, inference: InferenceConfig = InferenceConfig()) -> None:
        super().__init__()
        self.config = config
        self.inference = inference
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
        make_filter = FILTERS[config.filter]
        self.filter = make_filter(config.channels, config.masked_dims, config.filter_init)
        self.mlp = _mlp(config) if config.decoder == "mlp" else None

    def graph(self, points: Tensor) -> Tensor:
        """(B, N, K): the one static graph of a patch, used in both directions.

        In a patch with fewer than K points, the missing neighbours are the point itself.
        """
        if points.ndim != 3 or points.shape[-1] != self.config.point_dims:
            raise PdflowError(
                f"Patches must have shape (B, N, {self.config.point_dims}), "
                f"not {tuple(points.shape)}: pass a batch of patches."
            )
        if points.dtype != (known := next(self.parameters()).dtype):
            given, needed = (str(dtype).removeprefix("torch.") for dtype in (points.dtype, known))
            raise PdflowError(
                f"Patches are {given} and this network is {needed}: convert one of them, as in "
                "model.to(points.dtype)."
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
        """Augment and map to latent space, Eq. (6) and (1). eps is zero by default.

        sigma  (B,) noise of the patches in their own frame, if the network is conditioned on it
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
        """(B,): the ELBO of Eq. (7) for one eps; the exact likelihood if D_a = 0."""
        return self.log_prob_points(points, graph, eps, sigma).sum(1)

    def log_prob_points(
        self, points: Tensor, graph: Tensor, eps: Tensor | None = None, sigma: Tensor | None = None
    ) -> Tensor:
        """(B, N): each point's share of `log_prob`."""
        return self.encode(points, graph, eps, sigma).log_likelihood()

    def denoise_patches(
        self, points: Tensor, eps: Tensor | None = None, sigma: Tensor | None = None
    ) -> Tensor:
        """Clean patches (B, N, D_p): encode, filter, decode. Deterministic without eps.

        sigma  (B,) noise of the patches in their own frame, if the network is conditioned on it
        """
        graph = self.graph(points)
        code = self.encode(points, graph, eps, sigma).code
        return self.decode(self.filter(code), graph)

    def _with_noise(self, points: Tensor, sigma: Tensor | None) -> Tensor:
        """What the condition net sees: points (B, N, D_p), and the noise as one more channel.

        The channel holds log(noise_unit / sigma), which is positive: a relu comes later.
        """
        if not self.config.noise_conditioning:
            return points
        if sigma is None:
            raise PdflowError("This network needs the noise of its patches: pass their sigma.")
        level = -torch.log((sigma / self.config.noise_unit).clamp_min(LEAST_NOISE))
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
