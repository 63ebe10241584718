"""The network as one module that can be traced: neighbours inside, maps made once."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

from pdflow.flow.mixing import Map, affine_maps
from pdflow.model import PDFlow


class PatchNetwork(nn.Module):
    """`PDFlow.denoise_patches` at eps = 0, of operations that other runtimes have.

    The affine maps of the blocks depend on weights alone, so they are computed here and stored. The
    graph comes from all distances in float64, as exact as the k-d tree that torch uses on a CPU.
    """

    def __init__(self, model: PDFlow) -> None:
        super().__init__()
        self.model = copy.deepcopy(model).cpu().float().eval().requires_grad_(False)
        blocks = list(self.model.flow)
        layers = [block.mixing for block in blocks], [block.norm for block in blocks]
        self.maps: list[Map] = affine_maps(*layers)[0]
        self.inverse_maps: list[Map] = affine_maps(*layers, inverse=True)[0]

    def forward(self, points: Tensor, sigma: Tensor | None = None) -> Tensor:
        """Clean patches (B, N, 3) of noisy ones, in their own frames; sigma (B,) is their noise."""
        model, graph = self.model, self._graph(points)
        code, _ = model.augment(points, graph, None, sigma)
        total = points.new_zeros(points.shape[:2])
        blocks = list(model.flow)
        for block, mix in zip(blocks, self.maps, strict=True):
            code, _ = block.encode(code, graph, mix, total)
        code = model.filter(code)
        if model.mlp is not None:
            clean: Tensor = model.mlp(code)
            return clean
        for block, unmix in zip(reversed(blocks), reversed(self.inverse_maps), strict=True):
            code, _ = block.decode(code, graph, unmix, total)
        return code[..., : model.config.point_dims]

    def program(self, points: Tensor, sigma: Tensor | None) -> ExportedProgram:
        """The network traced by torch.export, for any number of patches and of points in them."""
        batch = Dim("batch", min=1)
        size = Dim("points", min=max(2, self.model.config.neighbours))
        shapes = {"points": {0: batch, 1: size}, "sigma": None if sigma is None else {0: batch}}
        return torch.export.export(self, (points, sigma), dynamic_shapes=shapes)

    def _graph(self, points: Tensor) -> Tensor:
        """(B, N, K): the nearest neighbours of each point in its patch, itself included."""
        wide = points.double()
        sq_norms = wide.square().sum(-1)
        products = wide @ wide.transpose(1, 2)
        sq_distances = sq_norms[:, :, None] + sq_norms[:, None] - 2 * products
        return sq_distances.topk(self.model.config.neighbours, largest=False).indices
