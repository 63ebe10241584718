from __future__ import annotations

import pytest
import torch

from pdflow.train.data import PatchPool, draw_noise, random_rotations


def test_batches_are_noisy_patches_around_their_seed(pool: PatchPool) -> None:
    generator = torch.Generator().manual_seed(3)
    batch = pool.sample(5, (0.01, 0.03), radius=4.0, centred=True, generator=generator)
    assert batch.noisy.shape == batch.clean.shape == (5, pool.patch_points, 3)
    assert batch.noisy[:, 0].abs().max() < 1e-5
    assert batch.noisy.norm(dim=-1).amax(1) == pytest.approx(torch.full((5,), 4.0), rel=1e-4)
    spread = (batch.noisy - batch.clean).std(dim=(1, 2))
    assert (spread / batch.sigma - 1).abs().max() < 0.35


def test_rotations_are_rotations() -> None:
    r = random_rotations(10, torch.device("cpu"), torch.Generator().manual_seed(0))
    assert torch.allclose(r @ r.transpose(1, 2), torch.eye(3).expand(10, 3, 3), atol=1e-5)
    assert torch.allclose(torch.linalg.det(r), torch.ones(10), atol=1e-5)


def test_rotations_are_spread_evenly() -> None:
    """Every entry has mean 0 and variance 1/3, and the trace has mean 0 and variance 1."""
    r = random_rotations(20_000, torch.device("cpu"), torch.Generator().manual_seed(0))
    assert r.mean(0).abs().max() < 0.02
    assert (r.square().mean(0) - 1 / 3).abs().max() < 0.02
    trace = r.diagonal(dim1=1, dim2=2).sum(1)
    assert abs(float(trace.mean())) < 0.03
    assert float(trace.var()) == pytest.approx(1, abs=0.03)


def test_coordinates_keep_float32_whatever_products_are_rounded_to(pool: PatchPool) -> None:
    batch = pool.sample(4, (0.0, 0.0), generator=torch.Generator().manual_seed(0))
    radii = batch.clean.norm(dim=-1)
    assert (radii - 1).abs().max() < 1e-6


def test_patches_can_be_cut_from_clean_clouds(pool: PatchPool) -> None:
    generator = torch.Generator().manual_seed(0)
    batch = pool.sample(4, (0.2, 0.2), radius=1.0, centred=True, generator=generator, cut="clean")
    assert batch.clean[:, 0].norm(dim=1).max() < 1e-6
    assert batch.clean.norm(dim=2).amax(1) == pytest.approx(torch.ones(4), rel=1e-4)
    assert batch.noisy.norm(dim=2).amax() > 1.05


def test_bending_keeps_seeds_and_moves_the_rim(pool: PatchPool) -> None:
    straight, bent = (
        pool.sample(4, (0.0, 0.0), generator=torch.Generator().manual_seed(0), bend=bend).clean
        for bend in (0.0, 0.2)
    )
    assert torch.equal(straight[:, 0], bent[:, 0])
    assert (straight - bent).abs().amax() > 1e-3


def test_deformed_patches_are_no_longer_round(pool: PatchPool) -> None:
    batch = pool.sample(4, (0.0, 0.0), generator=torch.Generator().manual_seed(0), deform=0.2)
    radii = batch.clean.norm(dim=2)
    assert radii.std() > 0.02


def test_overlapping_patches_hold_the_same_points(pool: PatchPool) -> None:
    """Brought into the first patch's frame, common points lie where they do there."""
    for radius, centred in ((4.0, True), (None, False)):
        batch = pool.sample(
            6, (0.02, 0.02), radius=radius, centred=centred, pairs=True,
            generator=torch.Generator().manual_seed(2),
        )  # fmt: skip
        pairs = batch.pairs
        assert pairs is not None
        assert pairs.noisy.shape == batch.noisy.shape
        gaps = pairs.sq_disagreement(batch.noisy, pairs.noisy)
        assert gaps.max() < 1e-10
        common = pairs.rows >= 0
        assert 0.5 < common.float().mean() < 0.9
        for rows, same in zip(pairs.rows, common, strict=True):
            assert len(rows[same].unique()) == same.sum()
        apart = (pairs.noisy[:, 0] * pairs.scale[:, None] + pairs.offset) - batch.noisy[:, 0]
        extent = (batch.noisy - batch.noisy[:, :1]).norm(dim=2).amax(1)
        assert ((apart.norm(dim=1) / extent - 1 / 3).abs() < 0.12).all()


def test_overlapping_patches_leave_the_first_ones_as_they_were(pool: PatchPool) -> None:
    one, two = (
        pool.sample(3, (0.0, 0.1), generator=torch.Generator().manual_seed(0), pairs=pairs)
        for pairs in (False, True)
    )
    assert one.pairs is None
    assert torch.equal(one.noisy, two.noisy)
    part = two[1:]
    assert part.pairs is not None
    assert two.pairs is not None
    assert torch.equal(part.pairs.rows, two.pairs.rows[1:])


def test_every_patch_gets_one_kind() -> None:
    generator = torch.Generator().manual_seed(0)
    offsets, spread = draw_noise(
        ["unidirectional", "gaussian"], (40, 50), torch.device("cpu"), generator
    )
    along_x = (offsets[..., 1:] == 0).all(2)
    assert (along_x.all(1) | ~along_x.any(1)).all()
    assert 5 < along_x.all(1).sum() < 35
    assert torch.equal(along_x.all(1), spread < 1)
