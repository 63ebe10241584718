"""Losses against numbers worked out by hand or by brute force."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import pytest
import torch

from pdflow.config import FlowConfig
from pdflow.errors import PdflowError
from pdflow.model import PDFlow
from pdflow.train.compute.streams import Beside
from pdflow.train.losses import (
    LossConfig,
    earth_movers_distance,
    exact_matching,
    joint_loss,
    paired_matching,
    sq_nearest_distances,
)
from pdflow.train.pairs import PatchPairs

TINY = FlowConfig(edge_neighbours=(4,), augment_dims=3, hidden=8, masked_dims=2, patch_points=12)


def test_emd_is_the_best_of_all_bijections() -> None:
    generator = torch.Generator().manual_seed(0)
    a, b = torch.randn(2, 1, 6, 3, generator=generator).unbind(0)
    distances = torch.cdist(a[0], b[0])
    best = min(sum(distances[i, j] for i, j in enumerate(p)) for p in permutations(range(6)))
    assert earth_movers_distance(a, b).item() == pytest.approx(float(best), rel=1e-5)


def test_emd_ignores_the_order_of_points_and_pairs_do_not() -> None:
    a = torch.randn(2, 10, 3)
    b = a[:, torch.randperm(10)]
    assert earth_movers_distance(a, b).max() < 1e-4
    assert earth_movers_distance(a, b, paired_matching).min() > 1
    assert torch.equal(exact_matching(a, a), torch.arange(10).expand(2, 10))


def test_squared_emd_squares_each_distance() -> None:
    a = torch.zeros(1, 1, 3)
    b = torch.tensor([[[0.0, 3.0, 4.0]]])
    assert earth_movers_distance(a, b).item() == pytest.approx(5)
    assert earth_movers_distance(a, b, squared=True).item() == pytest.approx(25)


def test_emd_gradient_goes_to_the_prediction_and_is_finite_at_zero() -> None:
    a = torch.zeros(1, 3, 3, requires_grad=True)
    earth_movers_distance(a, torch.zeros(1, 3, 3)).sum().backward()
    assert a.grad is not None
    assert torch.isfinite(a.grad).all()


@pytest.mark.parametrize("name", ["fbm", "lbm", "lcc"])
def test_total_is_the_weighted_sum(name: str) -> None:
    torch.manual_seed(0)
    model = PDFlow(replace(TINY, filter=name))
    clean = torch.randn(2, 12, 3)
    weights = LossConfig(rec=2.0, prior=3.0, denoise=5.0, chamfer=7.0)
    terms = joint_loss(model, clean + 0.1, clean, weights)
    expected = 2 * terms.rec + 3 * terms.prior + 5 * terms.denoise + 7 * terms.chamfer
    assert terms.total.item() == pytest.approx(expected.item(), rel=1e-6)


def test_the_prior_is_the_negative_elbo_of_a_mean_patch() -> None:
    torch.manual_seed(0)
    model = PDFlow(replace(TINY, filter="fbm")).eval()
    noisy, generator = torch.randn(2, 12, 3), torch.Generator().manual_seed(1)
    terms = joint_loss(model, noisy, noisy, LossConfig(), generator=generator)
    eps = model.sample_eps(noisy, generator.manual_seed(1))
    expected = -model.log_prob(noisy, model.graph(noisy), eps).mean()
    assert terms.prior.item() == pytest.approx(expected.item(), rel=1e-5)


def test_same_points_and_shared_eps_have_no_consistency_loss() -> None:
    torch.manual_seed(0)
    model = PDFlow(TINY).eval()
    clean = torch.randn(2, 12, 3)
    terms = joint_loss(model, clean, clean, LossConfig(shared_eps=True))
    assert terms.denoise.item() == pytest.approx(0, abs=1e-10)
    assert terms.rec.item() == pytest.approx(0, abs=1e-6)
    separate = joint_loss(model, clean, clean, LossConfig())
    assert separate.denoise.item() > 1e-4


@pytest.mark.gpu
def test_a_clean_branch_beside_the_rest_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    model = PDFlow(TINY).cuda().train()
    clean = torch.randn(2, 12, 3, device="cuda")
    joint_loss(model, clean, clean, LossConfig())  # the first batch sets the norms

    def gradients() -> list[torch.Tensor]:
        model.zero_grad()
        generator = torch.Generator("cuda").manual_seed(1)
        terms = joint_loss(model, clean + 0.1, clean, LossConfig(), generator=generator)
        terms.total.backward()
        return [p.grad.clone() for p in model.parameters() if p.grad is not None]

    beside = gradients()
    monkeypatch.setattr(Beside, "__enter__", lambda branch: branch)
    monkeypatch.setattr(Beside, "join", lambda branch, *outputs: None)
    for one, other in zip(beside, gradients(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_relative_loss_divides_by_the_noise_of_each_patch() -> None:
    torch.manual_seed(0)
    model = PDFlow(replace(TINY, filter="fbm", masked_dims=0)).eval()
    clean = torch.randn(1, 12, 3)
    config = LossConfig(rec=1.0, prior=0.0, denoise=0.0, matching="paired", floor=0.0)
    terms = joint_loss(model, clean + 0.5, clean, config, sigma=torch.tensor([0.5]))
    assert terms.rec.item() == pytest.approx(12, rel=1e-4)
    with pytest.raises(ValueError, match="noise of each patch"):
        joint_loss(model, clean, clean, config)


def test_central_points_can_weigh_more() -> None:
    torch.manual_seed(0)
    model = PDFlow(replace(TINY, filter="fbm", masked_dims=0)).eval()
    noisy = torch.zeros(1, 12, 3)
    noisy[0, :, 0] = torch.arange(12)
    clean = noisy.clone()
    clean[0, 11, 1] = 1.0
    plain = LossConfig(rec=1.0, prior=0.0, denoise=0.0, matching="paired")
    central = replace(plain, sharpness=4.0)
    at_border = [joint_loss(model, noisy, clean, c).rec.item() for c in (plain, central)]
    assert at_border[0] == pytest.approx(1, rel=1e-3)
    assert at_border[1] < 0.2
    moved = joint_loss(model, noisy + 7.0, clean + 7.0, central).rec.item()
    assert moved == pytest.approx(at_border[1], rel=1e-3)
    elsewhere = joint_loss(model, noisy, clean, central, seeds=noisy[:, 11:]).rec.item()
    assert elsewhere > 1


def test_unknown_matching_is_refused() -> None:
    with pytest.raises(PdflowError, match="exact, approximate, auction, paired"):
        LossConfig(matching="closest")


def test_nearest_distances_go_both_ways() -> None:
    prediction = torch.tensor([[[0.0, 0, 0], [1, 0, 0]]])
    target = torch.tensor([[[0.0, 0, 0.5], [9, 0, 0]]])
    there, back = sq_nearest_distances(prediction, target)
    assert there.tolist() == [[0.25, 1.25]]
    assert back.tolist() == [[0.25, 64.0]]


def test_gradients_of_nearest_distances_flow_through_the_differences_alone() -> None:
    generator = torch.Generator().manual_seed(1)
    prediction = torch.randn(2, 20, 3, generator=generator, dtype=torch.float64)
    target = torch.randn(2, 20, 3, generator=generator, dtype=torch.float64)
    prediction.requires_grad_()
    there, back = sq_nearest_distances(prediction, target)
    (there.sum() + back.sum()).backward()
    distances = torch.cdist(prediction.detach(), target)
    expected = torch.zeros_like(target)
    for b in range(2):
        for i, j in enumerate(distances[b].argmin(1)):
            expected[b, i] += 2 * (prediction[b, i] - target[b, j]).detach()
        for j, i in enumerate(distances[b].argmin(0)):
            expected[b, i] += 2 * (prediction[b, i] - target[b, j]).detach()
    assert torch.allclose(prediction.grad, expected)


def _pairs(points: torch.Tensor, shift: int = 3) -> PatchPairs:
    """A second patch that holds the same points in another order, moved and half as large."""
    batch, count, _ = points.shape
    rows = torch.arange(count).roll(shift).expand(batch, -1)
    moved = (points.roll(shift, 1) - 1.0) / 2
    return PatchPairs(moved, rows, torch.full((batch,), 2.0), torch.ones(batch, 3))


def test_patches_that_agree_have_no_inconsistency() -> None:
    points = torch.randn(2, 12, 3)
    pairs = _pairs(points)
    assert pairs.sq_disagreement(points, pairs.noisy).max() < 1e-10
    further = pairs.sq_disagreement(points, pairs.noisy + torch.tensor([0.0, 0.0, 0.5]))
    assert further == pytest.approx(torch.ones(2, 12), rel=1e-4)
    later = pairs.from_patch(1).sq_disagreement(points, pairs.noisy + 1)
    assert later[0].max() == 0
    assert later[1].min() > 1


def test_overlapping_patches_are_pulled_together() -> None:
    """The term is what both passes make of common points, and its gradient makes it smaller."""
    torch.manual_seed(0)
    model = PDFlow(replace(TINY, filter="fbm"))
    noisy = torch.randn(2, 12, 3)
    pairs = _pairs(noisy)
    config = LossConfig(rec=0.0, prior=0.0, denoise=0.0, matching="paired", consistency=5.0)
    with pytest.raises(ValueError, match="overlapping patches"):
        joint_loss(model, noisy, noisy, config)
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    values = []
    for _ in range(30):
        terms = joint_loss(model, noisy, noisy, config, pairs=pairs)
        assert terms.total.item() == pytest.approx(5 * terms.consistency.item(), rel=1e-6)
        values.append(terms.consistency.item())
        optimizer.zero_grad()
        terms.total.backward()
        optimizer.step()
    assert sum(values[-5:]) < 0.6 * sum(values[1:6])


def test_inconsistency_is_measured_between_two_passes() -> None:
    torch.manual_seed(0)
    model = PDFlow(replace(TINY, filter="fbm"))
    noisy = torch.randn(2, 12, 3)
    pairs = _pairs(noisy)
    model.denoise_patches(noisy)  # the first batch sets the norms
    model.eval()
    config = LossConfig(denoise=0.0, matching="paired", consistency=1.0, floor=0.5)
    sigma = torch.tensor([0.1, 0.2])
    with torch.no_grad():
        terms = joint_loss(
            model, noisy, noisy, config, sigma=sigma, pairs=pairs,
            generator=torch.Generator().manual_seed(0),
        )  # fmt: skip
        generator = torch.Generator().manual_seed(0)
        first, second = (
            model.denoise_patches(points, model.sample_eps(points, generator))
            for points in (noisy, pairs.noisy)
        )
    gaps = (2 * second + 1 - first.roll(3, 1)).square().sum((1, 2))
    expected = (gaps / (3 * (sigma.square() + 0.25))).mean()
    assert terms.consistency.item() == pytest.approx(expected.item(), rel=1e-5)
