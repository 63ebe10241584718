"""What training minimises: reconstruction, prior and denoise loss (section 3.6)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from pdflow.model import PDFlow

Matching = Callable[[Tensor, Tensor], Tensor]
"""(prediction (B, N, 3), target (B, N, 3)) -> for each prediction its target's row, (B, N)."""


@torch.no_grad()
def exact_matching(prediction: Tensor, target: Tensor) -> Tensor:
    """The bijection of Eq. (15): least sum of distances, solved exactly on the CPU.

    prediction, target  (B, N, 3)
    returns             (B, N) int64 rows of target
    """
    costs = torch.cdist(prediction.detach().double(), target.detach().double()).cpu().numpy()
    columns = [torch.from_numpy(linear_sum_assignment(cost)[1]) for cost in costs]
    return torch.stack(columns).to(prediction.device)


def paired_matching(prediction: Tensor, target: Tensor) -> Tensor:
    """Row i belongs to row i: (B, N). Holds where noise was added to clean points."""
    batch, count, _ = prediction.shape
    return torch.arange(count, device=prediction.device).expand(batch, count)


def earth_movers_distance(
    prediction: Tensor, target: Tensor, matching: Matching = exact_matching, squared: bool = False
) -> Tensor:
    """(B,): sum over points of the (squared) distance to the matched target, Eq. (15)."""
    rows = matching(prediction, target)
    matched = target.gather(1, rows[..., None].expand_as(prediction))
    sq_distances = (prediction - matched).square().sum(-1)
    return (sq_distances if squared else _safe_sqrt(sq_distances)).sum(1)


@dataclass(frozen=True)
class LossWeights:
    """Weights of Eq. (17) in the form that made the paper's numbers.

    rec      of the squared matched distances, summed over points, mean over patches
    prior    of the negative ELBO, summed over points, mean over patches
    denoise  of the filter's own loss

    Paper: the text gives alpha = 1e-6 for rec and beta = 0.1 for prior; the two are swapped
    there, and 0.1 multiplied a sum over a batch of 8 patches, which is 0.8 of their mean.
    """

    rec: float = 0.8
    prior: float = 1e-6
    denoise: float = 10.0


@dataclass(frozen=True)
class LossTerms:
    """The terms of Eq. (17), unweighted scalars, and their weighted total."""

    rec: Tensor
    prior: Tensor
    denoise: Tensor
    total: Tensor


def joint_loss(
    model: PDFlow,
    noisy: Tensor,
    clean: Tensor,
    weights: LossWeights,
    *,
    matching: Matching = exact_matching,
    generator: torch.Generator | None = None,
    shared_eps: bool = False,
) -> LossTerms:
    """Eq. (17) for noisy and clean patches (B, N, 3) whose rows correspond.

    The clean branch of LCC builds its own graph. It draws its own eps too, unless
    `shared_eps` gives both branches the same.
    """
    graph = model.graph(noisy)
    eps = model.sample_eps(noisy, generator)
    encoding = model.encode(noisy, graph, eps)
    filtered = model.filter(encoding.code)
    prediction = model.decode(filtered, graph)
    clean_code = None
    if model.filter.needs_clean_code:
        clean_eps = eps if shared_eps else model.sample_eps(clean, generator)
        clean_code = model.encode(clean, model.graph(clean), clean_eps).code
    rec = earth_movers_distance(prediction, clean, matching, squared=True).mean()
    prior = -encoding.log_likelihood().sum(1).mean()
    denoise = model.filter.loss(filtered, clean_code)
    total = weights.rec * rec + weights.prior * prior + weights.denoise * denoise
    return LossTerms(rec, prior, denoise, total)


def _safe_sqrt(sq_values: Tensor) -> Tensor:
    """Square root whose gradient at 0 is 0."""
    positive = sq_values > 0
    return torch.where(positive, torch.where(positive, sq_values, 1.0).sqrt(), 0.0)
