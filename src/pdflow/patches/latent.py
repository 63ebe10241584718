"""Encode patches, ask for their likelihood, filter their codes, and decode them."""

from __future__ import annotations

import torch
from torch import Tensor

from pdflow.model import Encoding, PDFlow
from pdflow.patches.batch import PatchBatch


@torch.no_grad()
def encode(model: PDFlow, batch: PatchBatch, seed: int | None = None) -> Encoding:
    """Latent codes (B, N, D) of patches, Eq. (1), with the terms of their likelihood.

    seed  draws the augmented dimensions; None takes their mean, eps = 0
    """
    eps = None
    if seed is not None:
        # Drawn on the CPU, so that a seed means the same on every device.
        generator = torch.Generator().manual_seed(seed)
        eps = model.sample_eps(batch.points.cpu(), generator).to(batch.points.device)
    return model.encode(batch.points, batch.graph, eps, batch.sigma)


def log_likelihood(model: PDFlow, batch: PatchBatch, seed: int | None = None) -> Tensor:
    """(B, N): how likely each point is in its patch, its share of the ELBO of Eq. (7), in nats.

    The sum over a patch bounds its log-density from below; without augmented dimensions it is
    exact. Compare points of one patch with each other: the level depends on noise and shape.
    """
    return encode(model, batch, seed).log_likelihood()


@torch.no_grad()
def filter_code(model: PDFlow, code: Tensor) -> Tensor:
    """Codes (B, N, D) without noise, Eq. (2): what the filter of the network makes of them."""
    filtered: Tensor = model.filter(code)
    return filtered


@torch.no_grad()
def decode(model: PDFlow, code: Tensor, batch: PatchBatch) -> Tensor:
    """Points (B, N, 3) of codes (B, N, D) in the frame of the patches, Eq. (3).

    batch  the patches that were encoded: decoding uses their neighbours
    """
    return model.decode(code, batch.graph)
