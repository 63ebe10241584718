"""The whole network for inference: one noisy patch in, one clean patch out."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from copy import copy

import numpy as np
import torch
from torch import nn

from pdflow.backends.compiled.augment import CompiledAugmentation
from pdflow.backends.compiled.flow import CompiledBlock, CompiledCoupling, Spans, merge_spans
from pdflow.backends.compiled.units import Graph, linear, wide
from pdflow.errors import PdflowError
from pdflow.flow.bijection import Chain
from pdflow.flow.filters import Filter
from pdflow.kernels.dense import Array, Dense
from pdflow.kernels.graph.cpu import patch_graph
from pdflow.model import LEAST_NOISE, PDFlow


class CompiledNetwork:
    """`PDFlow.denoise_patches` for one patch and one core.

    Weights are copied when it is made: later changes of the model do not reach it.
    """

    def __init__(self, model: PDFlow) -> None:
        config = model.config
        self._neighbours = config.neighbours
        self._noise_unit = config.noise_unit if config.noise_conditioning else None
        self._augment = CompiledAugmentation(model.augmentation) if model.augmentation else None
        blocks = [block for block in model.flow if isinstance(block, Chain)]
        outputs = [config.point_dims] + [config.channels] * (len(blocks) - 1)
        self._blocks = [
            CompiledBlock.of(block, wanted, is_first=i == 0)
            for i, (block, wanted) in enumerate(zip(blocks, outputs, strict=True))
        ]
        self._filter = _filter(model.filter)
        self._mlp = None
        if model.mlp is not None:
            layers = [linear(layer) for layer in model.mlp if isinstance(layer, nn.Linear)]
            layers[0] = layers[0][0][::-1], layers[0][1]
            self._mlp = Dense(layers)

    def __call__(
        self, points: Array, eps: Array, spans: Spans | None = None, sigma: float | None = None
    ) -> Array:
        """Clean points (N, 3) from noisy ones and eps (N, D_a).

        spans  takes up what the scales of affine couplings were
        sigma  noise of the patch in its own frame, for networks with noise conditioning
        """
        graph = self._graph(points)
        x = points
        if self._augment is not None:
            seen = self._with_noise(points, sigma)
            x = np.concatenate([points, self._augment(seen, graph, eps)], axis=1)
        for block in self._blocks:
            x = block.encode(x, graph, spans)
        x = self._filter(x)
        if self._mlp is not None:
            return self._mlp(x)
        for block in reversed(self._blocks):
            x = block.decode(x, graph, spans)
        return x

    @property
    def is_affine(self) -> bool:
        """Whether any coupling has a unit for its scale."""
        return any(coupling.has_scale_unit for coupling in self._couplings())

    def with_constant_scales(self, watched: Sequence[Spans]) -> CompiledNetwork:
        """The same with the mean in place of each scale unit that was seen to be constant.

        It is another network, but a flow as well: the same constants are used in both directions.
        """
        network = copy(self)
        spans = merge_spans(watched)
        network._blocks = [block.with_constant_scales(spans) for block in self._blocks]
        return network

    def _graph(self, points: Array) -> Graph:
        """(N, K), as `PDFlow.graph` has it: points that are missing are the point itself."""
        have = min(self._neighbours, len(points))
        graph = patch_graph(points, have)
        missing = self._neighbours - have
        return np.concatenate([graph, np.repeat(graph[:, :1], missing, 1)], 1) if missing else graph

    def _with_noise(self, points: Array, sigma: float | None) -> Array:
        """(N, D_p) or (N, D_p + 1), as the condition net of `PDFlow` sees it."""
        if self._noise_unit is None:
            return points
        if sigma is None:
            raise PdflowError("This network needs the noise of its patches: pass their sigma.")
        level = -math.log(max(sigma / self._noise_unit, LEAST_NOISE))
        return np.pad(points, ((0, 0), (0, 1)), constant_values=level)

    def _couplings(self) -> list[CompiledCoupling]:
        return [coupling for block in self._blocks for coupling in (block.first, block.second)]


def _filter(module: Filter) -> Callable[[Array], Array]:
    """A filter of codes whose channels are reversed, as the last block leaves them."""
    channels = module.channel_map()
    if channels is None:
        return _TorchFilter(module)
    if channels.ndim == 1:
        return _Mask(wide(channels)[::-1].astype(np.float32))
    matrix = wide(channels)[::-1, ::-1]
    return Dense([(matrix, np.zeros(len(matrix)))])


class _Mask:
    def __init__(self, mask: Array) -> None:
        self.mask = mask

    def __call__(self, x: Array) -> Array:
        x *= self.mask
        return x


class _TorchFilter:
    """A filter that is no linear map of the channels: the module itself."""

    def __init__(self, module: Filter) -> None:
        self.module = module

    @torch.inference_mode()
    def __call__(self, x: Array) -> Array:
        code = torch.from_numpy(np.ascontiguousarray(x[:, ::-1]))
        filtered: Array = self.module(code[None])[0].numpy()
        return np.ascontiguousarray(filtered[:, ::-1])
