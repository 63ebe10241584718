"""Patches of made scans: what they are cut from, and the errors that they get."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch

from pdflow.config import FlowConfig
from pdflow.errors import PdflowError
from pdflow.model import PDFlow
from pdflow.scenes.packed import PackedScans
from pdflow.train.data import Batch, PatchPool
from pdflow.train.loop import Trainer
from pdflow.train.losses import LossConfig, joint_loss
from pdflow.train.recipe import DataConfig, OptimConfig, Recipe
from pdflow.train.scan_errors import (
    ERRORS,
    OUTLIER_SHARES,
    Surroundings,
    draw_errors,
    draw_mixed_pixels,
    draw_outliers,
)
from pdflow.train.scans import ScanMix, ScanPool

POINTS = 64
QUIET = ScanMix(clean=0.0, mixed_pixels=0.0, outliers=0.0)


@pytest.fixture(scope="module")
def pool() -> ScanPool:
    scans = PackedScans.build(range(12), (500, 900))
    return ScanPool.cut(scans, 16, POINTS, torch.Generator().manual_seed(0))


def drawn(pool: ScanPool, mix: ScanMix, batch: int = 64, seed: int = 0, **options: Any) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    return pool.sample(batch, generator=generator, mix=mix, **options)


def around(count: int = 1024, batch: int = 40) -> Surroundings:
    """A flat square grid of pixels, seen at 60 degrees from two stations."""
    side = math.isqrt(count)
    column, row = torch.meshgrid(torch.arange(side), torch.arange(side), indexing="ij")
    pixels = torch.stack([column, row], -1).reshape(-1, 2).float()
    points = torch.cat([pixels / side, torch.zeros(count, 1)], -1)
    order = (points - points[count // 2 + side // 2]).norm(dim=1).argsort()
    pixels, points = (part[order].expand(batch, -1, -1) for part in (pixels, points))
    ray = torch.tensor([math.sin(math.pi / 3), 0, math.cos(math.pi / 3)])
    rays = ray.expand_as(points)
    normals = torch.tensor([0.0, 0, 1]).expand_as(points)
    ranges = 3 + (points * ray).sum(-1)
    scans = (torch.arange(count) % 2).expand(batch, -1)
    reach = (points[:, -1] - points[:, 0]).norm(dim=-1, keepdim=True)
    spacing = torch.full_like(reach, 1 / side)
    none = torch.zeros_like(ranges)
    return Surroundings(
        points, rays, normals, ranges, none, pixels, scans, none > 0, reach, spacing
    )


def test_batches_are_patches_with_errors_around_their_seed(pool: ScanPool) -> None:
    batch = drawn(pool, QUIET, radius=2.0, centred=True)
    assert batch.noisy.shape == batch.clean.shape == (64, POINTS, 3)
    assert batch.weight.shape == (64, POINTS)
    assert batch.noisy[:, 0].abs().max() < 1e-5
    assert batch.noisy.norm(dim=-1).amax(1) == pytest.approx(torch.full((64,), 2.0), rel=1e-4)
    assert (batch.sigma > 0).all()
    assert torch.isfinite(batch.noisy).all()
    same, other = drawn(pool, QUIET, radius=2.0, centred=True), drawn(pool, QUIET, seed=1)
    assert torch.equal(batch.noisy, same.noisy)
    assert not torch.equal(batch.noisy, other.noisy)


def test_surroundings_are_the_nearest_points_of_their_scan(pool: ScanPool) -> None:
    assert pool.surroundings.shape == (12 * 16, 2 * POINTS)
    points = pool.points[:, :3]
    found = points[pool.surroundings.long()]
    distances = (found - found[:, :1]).norm(dim=-1)
    assert (distances.diff(dim=1) > -1e-4).all()
    assert distances[:, 0].max() == 0


def test_levels_are_relative_to_the_clean_patch(pool: ScanPool) -> None:
    mix = replace(QUIET, noises={"independent": 1.0})
    batch = drawn(pool, mix, levels=(0.05, 0.05), radius=1.0, centred=True)
    # Patches are scaled by their noisy radius, which is close to the clean one.
    assert batch.sigma.median().item() == pytest.approx(0.05, rel=0.1)
    wide = drawn(pool, mix, 512, levels=(0.001, 0.1), radius=1.0).sigma.log10()
    assert wide.mean().item() == pytest.approx(-2, abs=0.15)
    assert wide.std().item() == pytest.approx(2 / math.sqrt(12), rel=0.15)


def test_clean_patches_stay_exactly_clean(pool: ScanPool) -> None:
    batch = drawn(pool, replace(ScanMix(), clean=0.5), 256)
    clean = (batch.noisy == batch.clean).all(dim=2).all(dim=1)
    assert clean[batch.sigma == 0].all()
    assert (batch.sigma == 0).float().mean().item() == pytest.approx(0.5, abs=0.1)
    assert (batch.weight[batch.sigma == 0] == 1).all()


@pytest.mark.parametrize("kind", ERRORS)
def test_errors_have_the_effective_sigma_along_the_normal(kind: str) -> None:
    flat = around()
    level = torch.full((len(flat.points),), 0.02)
    offsets, sigma = draw_errors(flat, level, {kind: 1.0}, torch.Generator().manual_seed(0))
    across = offsets[..., 2].square().mean().sqrt().item()
    assert across == pytest.approx(sigma.square().mean().sqrt().item(), rel=0.07)
    slanted = kind not in ("independent", "registration")
    assert across == pytest.approx(0.01 if slanted else 0.02, rel=0.07)
    none, quiet = draw_errors(flat, 0 * level, {kind: 1.0}, torch.Generator().manual_seed(0))
    assert not none.any()
    assert not quiet.any()


@pytest.mark.parametrize("kind", ["ray", "range", "quantised", "correlated"])
def test_scanner_errors_point_along_the_ray(kind: str) -> None:
    flat = around(batch=3)
    level = torch.full((3,), 0.02)
    offsets, _ = draw_errors(flat, level, {kind: 1.0}, torch.Generator().manual_seed(0))
    along = (offsets * flat.rays).sum(-1, keepdim=True)
    assert (offsets - along * flat.rays).abs().max() < 1e-7


def test_quantised_ranges_lie_in_layers() -> None:
    flat = around(batch=2)
    level = torch.full((2,), 0.02)
    offsets, _ = draw_errors(flat, level, {"quantised": 1.0}, torch.Generator().manual_seed(1))
    measured = flat.ranges + (offsets * flat.rays).sum(-1)
    layers = (measured - measured[:, :1]) / (math.sqrt(6) * 0.02)
    assert (layers - layers.round()).abs().max() < 1e-3


@pytest.mark.parametrize("gridded", [True, False])
def test_correlated_errors_are_alike_nearby_and_not_far_away(gridded: bool) -> None:
    flat = around(batch=200)
    one_scan = torch.zeros_like(flat.scans)
    pixels = flat.pixels if gridded else torch.full_like(flat.pixels, math.nan)
    flat = flat._replace(pixels=pixels, scans=one_scan)
    level = torch.ones(200)
    offsets, _ = draw_errors(flat, level, {"correlated": 1.0}, torch.Generator().manual_seed(0))
    error = (offsets * flat.rays).sum(-1)
    distances = (flat.points - flat.points[:, :1]).norm(dim=-1)[0] * 32
    with_seed = (error * error[:, :1]).mean(0)
    # Lengths from 1 to 5: at a distance of 1 the mean of exp(-1 / l^2) is 0.84, times 0.85.
    assert with_seed[(distances - 1).abs() < 0.1].mean().item() == pytest.approx(0.69, abs=0.15)
    assert abs(with_seed[distances > 14].mean().item()) < 0.1


@pytest.mark.parametrize("alone", [False, True])
def test_registration_moves_scans_as_a_whole(alone: bool) -> None:
    """Where there is but one scan, its points are shared out among two at random."""
    flat = around(batch=50)
    scans = torch.zeros_like(flat.scans) if alone else flat.scans
    level = torch.full((50,), 0.02)
    offsets, _ = draw_errors(
        flat._replace(scans=scans), level, {"registration": 1.0}, torch.Generator().manual_seed(2)
    )
    heights = offsets[..., 2]
    assert heights.mean(1).abs().max() < 0.005
    assert heights.std().item() == pytest.approx(0.02, rel=0.05)
    apart = heights[:, flat.scans[0] == 0].mean(1) - heights[:, flat.scans[0] == 1].mean(1)
    assert (apart.abs().median() > 0.01) != alone


def test_kinds_are_drawn_as_often_as_their_shares_say() -> None:
    flat = around(count=16, batch=4000)
    shares = {"independent": 3.0, "ray": 1.0}
    offsets, _ = draw_errors(flat, torch.ones(4000), shares, torch.Generator().manual_seed(0))
    along = (offsets - (offsets * flat.rays).sum(-1, keepdim=True) * flat.rays).norm(dim=-1)
    assert (along.amax(1) < 1e-5).float().mean().item() == pytest.approx(0.25, abs=0.03)


def test_mixed_pixels_lie_across_their_edge() -> None:
    flat = around(batch=8)
    flat = flat._replace(jumps=torch.where(flat.points[..., 0] > 0.9, 0.5, 0.0))
    happens = torch.arange(8) < 4
    moves, mixed = draw_mixed_pixels(flat, happens, torch.Generator().manual_seed(0))
    assert not mixed[4:].any()
    assert 0.3 < mixed[:4].sum() / (flat.jumps[:4] != 0).sum() < 0.7
    lengths = (moves * flat.rays).sum(-1)[mixed]
    assert 0.05 <= lengths.min() < lengths.max() <= 0.45
    assert not moves[~mixed].any()


def test_outliers_are_around_the_patch_and_never_its_seed() -> None:
    flat = around(batch=60)
    happens = torch.arange(60) < 40
    places, chosen = draw_outliers(flat, happens, torch.Generator().manual_seed(0))
    shares = chosen.float().mean(1)
    assert not chosen[40:].any()
    assert not chosen[:, 0].any()
    assert OUTLIER_SHARES[0] / 3 < shares[:40].min() < shares[:40].max() < 1.2 * OUTLIER_SHARES[1]
    distances = (places - flat.points[:, :1]).norm(dim=-1)[chosen] / flat.reach[0]
    assert distances.max() < 3
    assert places[chosen][:, 2].abs().median() > 0.05 * flat.reach[0]


def test_outliers_and_loose_points_are_their_own_targets(pool: ScanPool) -> None:
    mix = replace(QUIET, outliers=1.0, outlier_weight=0.25)
    batch = drawn(pool, mix, 128)
    outlying = batch.weight == 0.25
    assert 0.01 < outlying.float().mean() < 0.2
    assert torch.equal(batch.noisy[outlying], batch.clean[outlying])
    leaves = pool.points.clone()
    leaves[:, -1] = 1
    loose = ScanPool(leaves, pool.surroundings, POINTS)
    batch = drawn(loose, QUIET)
    assert torch.equal(batch.noisy, batch.clean)
    assert (batch.weight == 1).all()
    assert (batch.sigma > 0).all()


def test_sigma_is_that_of_the_errors_across_the_surface(pool: ScanPool) -> None:
    """Independent errors have it along every axis."""
    mix = replace(QUIET, noises={"independent": 1.0})
    batch = drawn(pool, mix, 256, levels=(0.02, 0.02), radius=1.0)
    moved = (batch.noisy != batch.clean).any(dim=2).all(dim=1)
    spread = (batch.noisy - batch.clean).square().mean((1, 2)).sqrt()[moved]
    assert (spread / batch.sigma[moved]).mean().item() == pytest.approx(1, abs=0.03)


def test_batches_can_be_divided_and_moved(pool: ScanPool) -> None:
    batch = drawn(pool, ScanMix(), 8)
    part = batch[1::2]
    assert torch.equal(part.weight, batch.weight[1::2])
    assert set(batch.tensors()) == {"noisy", "clean", "sigma", "weight"}
    assert batch.map(lambda tensor: tensor[:1]).weight.shape == (1, batch.weight.shape[1])


def test_pairs_of_patches_hold_the_same_points(pool: ScanPool) -> None:
    batch = drawn(pool, ScanMix(), 16, radius=1.0, centred=True, pairs=True)
    assert batch.pairs is not None
    assert (batch.pairs.rows >= 0).float().mean() > 0.4
    assert batch.pairs.sq_disagreement(batch.noisy, batch.pairs.noisy).max() < 1e-8
    assert batch[:4].pairs is not None
    assert {"weight", "pairs.rows"} < set(batch.tensors())


def test_what_cannot_be_drawn_is_refused(pool: ScanPool) -> None:
    with pytest.raises(PdflowError, match="no error of scanners 'pink'"):
        ScanMix(noises={"pink": 1.0})
    with pytest.raises(PdflowError, match="at least one kind"):
        ScanMix(noises={"ray": 0.0})
    with pytest.raises(PdflowError, match="clean is 2"):
        ScanMix(clean=2)
    scans = PackedScans.build([0], (500, 600))
    with pytest.raises(PdflowError, match="fewer than the 2048 around a patch"):
        ScanPool.cut(scans, 4, 1024, torch.Generator())


def test_no_shape_depends_on_what_is_drawn(pool: ScanPool) -> None:
    """Tensors without values can be worked with: nothing is looked at, so a step never waits."""
    absent = ScanPool(pool.points.to("meta"), pool.surroundings.to("meta"), POINTS)
    batch = absent.sample(4, radius=1.0, centred=True)
    assert batch.noisy.shape == (4, POINTS, 3)


@pytest.mark.gpu
def test_a_batch_can_be_recorded(pool: ScanPool) -> None:
    """Nothing in it waits for the device or copies to it."""
    cuda = ScanPool(pool.points.cuda(), pool.surroundings.cuda(), POINTS)
    cuda.sample(8, radius=1.0, centred=True)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        batch = cuda.sample(8, radius=1.0, centred=True)
    graph.replay()
    first = batch.noisy.clone()
    graph.replay()
    assert torch.isfinite(first).all()
    assert not torch.equal(first, batch.noisy)


def test_a_step_takes_its_share_from_scans() -> None:
    packed = PackedScans.build(range(2))
    recipe = Recipe(
        "mixed",
        FlowConfig(
            edge_neighbours=(0,), augment_dims=5, hidden=8, condition_neighbours=4,
            condition_hidden=8, condition_features=8, augment_hidden=8, patch_points=64,
        ),
        data=DataConfig(scans=0.25),
        loss=LossConfig(matching="paired", chamfer=0.1),
        optim=OptimConfig(batch=8, steps=1),
    )  # fmt: skip
    generator = torch.Generator().manual_seed(0)
    shapes = PatchPool(torch.randn(4, 128, 3, generator=generator), 64)
    trainer = Trainer(recipe, shapes, "cpu", scans=ScanPool.cut(packed, 4, 64, generator))
    assert trainer.batch.noisy.shape == (8, 64, 3)
    assert trainer.batch.weight is not None
    assert (trainer.batch.weight[:6] == 1).all()
    trainer.fit()
    assert int(trainer.skipped) == 0


def test_points_without_weight_do_not_count() -> None:
    torch.manual_seed(0)
    model = PDFlow(FlowConfig(edge_neighbours=(0,), augment_dims=0, masked_dims=0, hidden=8))
    clean = torch.randn(2, 40, 3)
    weight = torch.ones(2, 40)
    weight[:, 20:] = 0
    off = clean + torch.where(weight[..., None] > 0, 0.0, 5.0)
    config = LossConfig(matching="paired", denoise=0.0)
    losses = [
        joint_loss(model, clean, target, config, weight=weight).rec.item()
        for target in (clean, off)
    ]
    assert losses[0] == losses[1]
