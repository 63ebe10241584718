"""The whole network: configs, likelihood, round trip, decoders."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from pdflow.config import FlowConfig
from pdflow.errors import PdflowError
from pdflow.model import PDFlow
from pdflow.train.recipe import load_recipe

TINY = FlowConfig(
    edge_neighbours=(4, 0), augment_dims=5, hidden=8, masked_dims=0, condition_neighbours=4,
    condition_hidden=6, condition_features=6, augment_hidden=6, patch_points=16,
)  # fmt: skip


def _randomised(config: FlowConfig, seed: int = 0) -> PDFlow:
    torch.manual_seed(seed)
    model = PDFlow(config).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return model


@pytest.mark.parametrize(
    ("preset", "parameters"),
    [("paper-lcc", 471_713), ("paper-l4", 299_989), ("paper-l12", 647_149)],
)
def test_presets_have_the_papers_parameter_counts(preset: str, parameters: int) -> None:
    assert sum(p.numel() for p in PDFlow(load_recipe(preset).model).parameters()) == parameters


def test_mlp_decoder_has_578_thousand_parameters() -> None:
    count = sum(p.numel() for p in PDFlow(load_recipe("paper-mlp").model).parameters())
    assert round(count / 1000) == 578


@pytest.mark.filterwarnings("ignore:Initializing zero-element")
@pytest.mark.parametrize("augment_dims", [0, 1, 5])
def test_masking_nothing_returns_the_input(augment_dims: int) -> None:
    config = replace(TINY, augment_dims=augment_dims, filter="fbm", masked_dims=0)
    model = _randomised(config)
    points = torch.randn(2, 16, 3).double()
    eps = model.sample_eps(points)
    assert (model.denoise_patches(points, eps) - points).abs().max() < 1e-10
    in_float = points.float()
    assert (model.float().denoise_patches(in_float, eps.float()) - in_float).abs().max() < 1e-5


def test_masking_something_changes_the_points() -> None:
    model = _randomised(replace(TINY, filter="fbm", masked_dims=3))
    points = torch.randn(1, 16, 3).double()
    assert (model.denoise_patches(points) - points).abs().max() > 1e-3


def test_zero_eps_is_deterministic_and_eps_matters() -> None:
    model = _randomised(TINY)
    points = torch.randn(1, 16, 3).double()
    generator = torch.Generator().manual_seed(4)
    assert torch.equal(model.denoise_patches(points), model.denoise_patches(points))
    eps = model.sample_eps(points, generator)
    again = model.sample_eps(points, torch.Generator().manual_seed(4))
    assert torch.equal(eps, again)
    assert not torch.equal(model.denoise_patches(points, eps), model.denoise_patches(points))


def test_shared_eps_is_one_draw_for_all_patches() -> None:
    model = _randomised(TINY)
    eps = model.sample_eps(torch.zeros(3, 16, 3), shared=True)
    assert torch.equal(eps[0], eps[2])
    separate = model.sample_eps(torch.zeros(3, 16, 3))
    assert not torch.equal(separate[0], separate[2])


def test_vanilla_flow_likelihood_integrates_to_one() -> None:
    """D_p = 2, D_a = 0, one point per patch: the density over the plane is a density."""
    config = replace(
        TINY, point_dims=2, augment_dims=0, edge_neighbours=(1, 0), patch_points=1
    )  # fmt: skip
    model = _randomised(config)
    axis = torch.linspace(-14, 14, 561).double()
    grid = torch.cartesian_prod(axis, axis)[:, None]
    graph = torch.zeros(len(grid), 1, 1, dtype=torch.long)
    with torch.no_grad():
        mass = model.log_prob(grid, graph).exp().sum() * (axis[1] - axis[0]) ** 2
    assert mass == pytest.approx(1, abs=2e-3)


@pytest.mark.filterwarnings("ignore:Initializing zero-element")
def test_elbo_is_below_the_integrated_likelihood_and_its_average_recovers_it() -> None:
    """D_p = 1, D_a = 1, one point: log p(x) by quadrature over p_bar against the ELBO terms."""
    config = replace(
        TINY, point_dims=1, augment_dims=1, edge_neighbours=(1, 0), condition_neighbours=1,
        patch_points=1, augment_norm="none",
    )  # fmt: skip
    model = _randomised(config, seed=3)
    x = torch.tensor([[[0.4]]]).double()
    graph = torch.zeros(1, 1, 1, dtype=torch.long)
    with torch.no_grad():
        extra = torch.linspace(1e-6, 1 - 1e-6, 20001).double()
        h = torch.stack([x.flatten().expand_as(extra), extra], -1)[:, None]
        code, log_det = model.flow(h, graph.expand(len(h), 1, 1))
        joint = -0.5 * code.square().sum((1, 2)) - math.log(2 * math.pi) + log_det
        likelihood = torch.trapezoid(joint.exp(), extra).log()

        eps = torch.linspace(-40, 40, 40001).double()
        log_density = -0.5 * eps.square() - 0.5 * math.log(2 * math.pi)
        many = x.expand(len(eps), 1, 1)
        elbo_terms = model.log_prob(many, graph.expand(len(eps), 1, 1), eps[:, None, None])
        elbo = torch.trapezoid(elbo_terms * log_density.exp(), eps)
        importance = torch.trapezoid((elbo_terms + log_density).exp(), eps).log()
    assert elbo < likelihood
    assert importance.item() == pytest.approx(likelihood.item(), abs=1e-5)


def test_per_point_likelihoods_sum_to_the_patch() -> None:
    model = _randomised(TINY)
    points = torch.randn(2, 16, 3).double()
    graph = model.graph(points)
    per_point = model.log_prob_points(points, graph)
    assert per_point.shape == (2, 16)
    assert torch.allclose(per_point.sum(1), model.log_prob(points, graph))


@pytest.mark.parametrize("decoder", ["inverse", "mlp"])
@pytest.mark.parametrize("coupling", ["affine", "additive"])
@pytest.mark.parametrize("condition", ["absolute", "edge", "graph"])
def test_every_parameter_of_every_variant_is_trained(
    decoder: str, coupling: str, condition: str
) -> None:
    from pdflow.train.losses import LossConfig, joint_loss

    config = replace(TINY, decoder=decoder, coupling=coupling, condition=condition)
    model = _randomised(config).train()
    clean = torch.randn(2, 16, 3).double()
    noisy = clean + 0.1 * torch.randn_like(clean)
    joint_loss(model, noisy, clean, LossConfig()).total.backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().max() > 0, name


@pytest.mark.parametrize("shape", [(16, 3), (2, 16, 2), (1, 2, 16, 3)])
def test_patches_of_odd_shape_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(PdflowError, match=r"\(B, N, 3\)"):
        PDFlow(TINY).denoise_patches(torch.zeros(shape))


CONDITIONED = replace(
    TINY, condition="graph", condition_layers=2, augment_flow="affine", noise_conditioning=True
)


def test_a_network_can_be_conditioned_on_the_noise() -> None:
    model = _randomised(CONDITIONED)
    points = torch.randn(3, 16, 3).double()
    sigma = torch.tensor([0.01, 0.02, 0.02]).double()
    whole = model.denoise_patches(points, sigma=sigma)
    for i in range(3):
        alone = model.denoise_patches(points[i : i + 1], sigma=sigma[i : i + 1])
        assert torch.allclose(whole[i], alone[0])
    other = model.denoise_patches(points, sigma=sigma * torch.tensor([1.0, 1.0, 2.0]).double())
    assert torch.equal(whole[:2], other[:2])
    assert (whole[2] - other[2]).abs().max() > 1e-4
    code = model.encode(points, model.graph(points), sigma=sigma).code
    assert torch.allclose(model.decode(code, model.graph(points)), points, atol=1e-9)


def test_no_noise_at_all_is_finite_and_as_good_as_very_little() -> None:
    model = _randomised(CONDITIONED)
    points = torch.randn(1, 16, 3).double()
    none, little = (
        model.denoise_patches(points, sigma=torch.tensor([sigma]).double()) for sigma in (0, 1e-5)
    )
    assert torch.isfinite(none).all()
    assert torch.equal(none, little)


def test_a_conditioned_network_needs_the_noise() -> None:
    with pytest.raises(PdflowError, match="pass their sigma"):
        _randomised(CONDITIONED).denoise_patches(torch.randn(1, 16, 3).double())


def test_other_networks_ignore_the_noise() -> None:
    model, points = _randomised(TINY), torch.randn(2, 16, 3).double()
    sigma = torch.tensor([0.1, 0.2]).double()
    assert torch.equal(model.denoise_patches(points), model.denoise_patches(points, sigma=sigma))
