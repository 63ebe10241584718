"""The training loss: reconstruction, prior and denoise terms (section 3.6)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor
from torch.nn.functional import mse_loss

from pdflow.errors import PdflowError
from pdflow.kernels.graph import nearest
from pdflow.kernels.matching import approximate_matching, auction_matching
from pdflow.model import Encoding, PDFlow
from pdflow.train.compute.gradients import separate_passes
from pdflow.train.compute.rows import take_rows
from pdflow.train.compute.streams import Beside
from pdflow.train.pairs import PatchPairs
from pdflow.train.patches import patch_weights

Matching = Callable[[Tensor, Tensor], Tensor]
"""(prediction (B, N, 3), target (B, N, 3)) -> (B, N) row of the target of each prediction."""


@torch.no_grad()
def exact_matching(prediction: Tensor, target: Tensor) -> Tensor:
    """The bijection of Eq. (15) with the smallest sum of distances, solved exactly on the CPU.

    prediction, target  (B, N, 3)
    returns             (B, N) int64 rows of target
    """
    costs = torch.cdist(prediction.detach().double(), target.detach().double()).cpu().numpy()
    columns = [torch.from_numpy(linear_sum_assignment(cost)[1]) for cost in costs]
    return torch.stack(columns).to(prediction.device)


def paired_matching(prediction: Tensor, target: Tensor) -> Tensor:
    """Row i is matched with row i: (B, N). Right if noise was added to clean points."""
    batch, count, _ = prediction.shape
    return torch.arange(count, device=prediction.device).expand(batch, count)


MATCHINGS: dict[str, Matching] = {
    "exact": exact_matching,
    "approximate": approximate_matching,
    "auction": auction_matching,
    "paired": paired_matching,
}


def sq_matched_distances(prediction: Tensor, target: Tensor, matching: Matching) -> Tensor:
    """(B, N): squared distance of each prediction to its matched target."""
    rows = matching(prediction, target)
    return (prediction - take_rows(target, rows)).square().sum(-1)


def sq_nearest_distances(prediction: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """(B, N) from each prediction to its nearest target, and (B, N) from each target back."""
    there = nearest(prediction.detach(), target.detach(), 1)[..., 0]
    back = nearest(target.detach(), prediction.detach(), 1)[..., 0]
    return (
        (prediction - take_rows(target, there)).square().sum(-1),
        (target - take_rows(prediction, back)).square().sum(-1),
    )


def earth_movers_distance(
    prediction: Tensor, target: Tensor, matching: Matching = exact_matching, squared: bool = False
) -> Tensor:
    """(B,): sum over points of the (squared) distance to the matched target, Eq. (15)."""
    sq_distances = sq_matched_distances(prediction, target, matching)
    return (sq_distances if squared else _safe_sqrt(sq_distances)).sum(1)


@dataclass(frozen=True)
class LossConfig:
    """The joint loss, Eq. (17); the defaults are the form that made the paper's numbers.

    rec        weight of the squared matched distances, summed over points, mean over patches
    prior      weight of the negative ELBO, summed over points, mean over patches
    denoise    weight of the filter's own loss
    chamfer    weight of the squared distances to the nearest clean point and back, summed and
               averaged like `rec`; unlike pairs, it asks for an even cover
    consistency  weight of the squared distances between two overlapping patches at their common
               points, summed and averaged like `rec`; doubles the cost of a step
    matching   "exact" (EMD), "approximate" (a bijection close to it, on the device), "auction"
               (like the authors': much faster, but a few per cent of the points share targets)
               or "paired" (row i with row i)
    floor      None, or: squared distances are divided by 3 (sigma^2 + floor^2), with sigma the
               noise of the patch, so that patches with little noise count as much as others
    sharpness  of the weights of points, as when patches are blended (`patch_weights`)
    shared_eps whether the clean branch of LCC uses the eps of the noisy one

    Paper: the text gives alpha = 1e-6 for rec and beta = 0.1 for prior; the two are swapped
    there, and 0.1 multiplied a sum over a batch of 8 patches, which is 0.8 of their mean.
    """

    rec: float = 0.8
    prior: float = 1e-6
    denoise: float = 10.0
    chamfer: float = 0.0
    consistency: float = 0.0
    matching: str = "exact"
    floor: float | None = None
    sharpness: float = 0.0
    shared_eps: bool = False

    def __post_init__(self) -> None:
        if self.matching not in MATCHINGS:
            raise PdflowError(f"Unknown matching {self.matching!r}: choose {', '.join(MATCHINGS)}.")


@dataclass(frozen=True)
class LossTerms:
    """The loss of Eq. (17), and its unweighted terms: scalars."""

    total: Tensor
    rec: Tensor
    prior: Tensor
    denoise: Tensor
    chamfer: Tensor
    consistency: Tensor


def joint_loss(
    model: PDFlow,
    noisy: Tensor,
    clean: Tensor,
    config: LossConfig,
    *,
    sigma: Tensor | None = None,
    conditioning: Tensor | None = None,
    pairs: PatchPairs | None = None,
    seeds: Tensor | None = None,
    weight: Tensor | None = None,
    generator: torch.Generator | None = None,
) -> LossTerms:
    """Eq. (17) for noisy and clean patches (B, N, 3) whose rows correspond.

    sigma         (B,) noise of each patch, needed if `config.floor` is set
    conditioning  (B,) noise that the network is conditioned on, if it is
    pairs         a second patch for each, needed if `config.consistency` is set
    seeds         (B, 1, 3) the seeds of the patches as they were cut; by default the first rows
    weight        (B, N) of every point's distance; by default all count alike

    The clean branch of LCC builds its own graph, and draws its own eps unless `shared_eps` is set.
    It starts after the noisy points are augmented, because both update the running statistics of
    batch normalisation, and then runs in parallel with the rest.
    """
    on_noisy, on_code, on_clean, *on_second = separate_passes(model, 4 if config.consistency else 3)
    graph = model.graph(noisy)
    eps = model.sample_eps(noisy, generator)
    augmented, log_q = on_noisy("augment", noisy, graph, eps, conditioning)
    clean_code = None
    if model.filter.needs_clean_code and config.denoise:
        with Beside(clean, eps) as clean_branch:
            clean_eps = eps if config.shared_eps else model.sample_eps(clean, generator)
            clean_code = on_clean("encode", clean, model.graph(clean), clean_eps, conditioning).code
    encoding = on_noisy("encode_augmented", augmented, log_q, graph)
    filtered = model.filter(encoding.code)
    prediction = on_code("decode", filtered, graph)
    sq_distances = sq_matched_distances(prediction, clean, MATCHINGS[config.matching])
    seeds = noisy[:, :1] if seeds is None else seeds
    if weight is not None:
        sq_distances = sq_distances * weight
    rec = _mean_patch(sq_distances, noisy, seeds, sigma, config)
    chamfer = consistency = rec.new_zeros(())
    if config.chamfer:
        there, back = sq_nearest_distances(prediction, clean)
        if weight is not None:
            there, back = there * weight, back * weight
        chamfer = _mean_patch(there, noisy, seeds, sigma, config)
        chamfer = chamfer + _mean_patch(back, clean, seeds, sigma, config)
    if config.consistency:
        if pairs is None:
            raise ValueError("A consistency loss needs overlapping patches.")
        rescaled = None if conditioning is None else conditioning / pairs.scale
        second_eps = model.sample_eps(pairs.noisy, generator)
        second = on_second[0]("denoise_patches", pairs.noisy, second_eps, rescaled)
        sq_disagreement = pairs.sq_disagreement(prediction, second)
        consistency = _mean_patch(sq_disagreement, pairs.noisy, pairs.noisy[:, :1], sigma, config)
    if clean_code is not None:
        clean_branch.join(clean_code)
    prior = _negative_elbo(encoding)
    denoise = model.filter.loss(filtered, clean_code) if config.denoise else rec.new_zeros(())
    others = [(config.prior, prior), (config.denoise, denoise)]
    others += [(config.chamfer, chamfer), (config.consistency, consistency)]
    total = config.rec * rec
    for factor, term in others:
        total = torch.add(total, term, alpha=factor) if factor else total
    return LossTerms(total, rec, prior, denoise, chamfer, consistency)


def _negative_elbo(encoding: Encoding) -> Tensor:
    """-`Encoding.log_likelihood`, summed over points, mean over patches, with a cheap gradient."""
    code = encoding.code
    sq_sum = mse_loss(code, code.new_zeros(()).expand_as(code), reduction="sum")
    terms = (encoding.log_det - encoding.log_q).sum()
    return (0.5 * sq_sum - terms) / len(code) + 0.5 * code[0].numel() * math.log(2 * math.pi)


def _mean_patch(
    sq_distances: Tensor,
    places: Tensor,
    seeds: Tensor,
    sigma: Tensor | None,
    config: LossConfig,
) -> Tensor:
    """Mean over patches of the sum of squared distances (B, N), weighted as in `config`.

    places, seeds  (B, N, 3) and (B, 1, 3): they decide the weights of points
    """
    if config.sharpness:
        weights = patch_weights(places, seeds, config.sharpness)
        sq_distances = sq_distances * weights / weights.mean(1, keepdim=True)
    per_patch = sq_distances.sum(1)
    if config.floor is not None:
        if sigma is None:
            raise ValueError("A relative loss needs the noise of each patch.")
        per_patch = per_patch / (3 * (sigma.square() + config.floor**2))
    return per_patch.mean()


def _safe_sqrt(sq_values: Tensor) -> Tensor:
    """Square root whose gradient at 0 is 0."""
    positive = sq_values > 0
    return torch.where(positive, torch.where(positive, sq_values, 1.0).sqrt(), 0.0)
