"""Arguments of the edge kernels, and the tensors that they fill."""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
from torch import Tensor

from pdflow.kernels.triton_launch import multiprocessors, sum_partials


class Edges(NamedTuple):
    """Features of points, the graph between them, and the weight of layer F2.

    centre, neighbour  (G, B, N, H)
    graph              (B, N, K) rows of the same patch, contiguous along K
    weight             (G, H, H)
    """

    centre: Tensor
    neighbour: Tensor
    graph: Tensor
    weight: Tensor

    def empty_results(self, with_choice: bool) -> tuple[Tensor, Tensor, Tensor]:
        """Results of a forward kernel, to be filled.

        returns  out (G, B, N, H) in the type of centre; choice (G, B, N, H) uint8 and active
                 (G, B, N) int32 or, for K > 32, int64, both of size 0 unless `with_choice`
        """
        word = torch.int32 if self.graph.shape[-1] <= 32 else torch.int64
        shape = self.centre.shape if with_choice else (0, 0, 0, 0)
        choice = self.centre.new_empty(shape, dtype=torch.uint8)
        active = self.centre.new_empty(shape[:3], dtype=word)
        return self.centre.new_empty(self.centre.shape), choice, active

    def weight_sums(self, tile: int, waves: int) -> Tensor:
        """Results of a backward kernel of weights, to be filled: a row of sums per program.

        tile, waves  nodes of a tile, and programs per multiprocessor
        """
        groups, batch, points, width = self.centre.shape
        programs = max(1, waves * multiprocessors(self.centre.device) // groups)
        programs = min(batch * triton.cdiv(points, tile), programs)
        shape = programs, groups * (width + 1) * width
        return self.weight.new_empty(shape, dtype=torch.float32)

    def weight_gradients(self, sums: Tensor) -> tuple[Tensor, Tensor]:
        """Gradients of weight (G, H, H) and bias (G, H) from the sums of programs."""
        groups, width, _ = self.weight.shape
        dweight, dbias = sum_partials(sums).split([self.weight.numel(), groups * width])
        return dweight.view_as(self.weight), dbias.view(groups, width)
