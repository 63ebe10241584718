"""Passes through the network, their partitions and their progress."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from pdflow.backends.compiled.backend import CompiledBackend
from pdflow.cloud import PointCloud
from pdflow.config import FlowConfig, InferenceConfig
from pdflow.model import PDFlow
from pdflow.pipeline.denoise import Denoiser
from pdflow.pipeline.plan import Plan

Sphere = Callable[..., np.ndarray]


def test_partitions_are_never_too_small(model: PDFlow, sphere: Sphere) -> None:
    done = Denoiser(model, partitions=10**6)(PointCloud(sphere(200)))
    assert done.report.partitions == 3


def test_passes_and_partitions_can_be_given(
    model: PDFlow, sphere: Sphere, off_sphere: Callable[[np.ndarray], float]
) -> None:
    noisy = sphere(3000)
    done = Denoiser(model, iterations=2, partitions=3)(PointCloud(noisy))
    assert (done.report.iterations, done.report.partitions) == (2, 3)
    assert off_sphere(done.cloud.points) < 0.6 * off_sphere(noisy)


def test_progress_adds_up_to_one(model: PDFlow, sphere: Sphere) -> None:
    shares: list[float] = []
    Denoiser(model, iterations=2, partitions=2)(PointCloud(sphere(2500)), shares.append)
    assert sum(shares) == pytest.approx(1)
    assert min(shares) > 0


def test_progress_adds_up_to_one_where_passes_are_saved(
    model: PDFlow, monkeypatch: pytest.MonkeyPatch, sphere: Sphere
) -> None:
    monkeypatch.setattr("pdflow.pipeline.passes.CONVERGED", 1.0)
    monkeypatch.setattr("pdflow.pipeline.denoise.make_plan", lambda *_: Plan(4, 2))
    shares: list[float] = []
    done = Denoiser(model)(PointCloud(sphere(300)), shares.append)
    assert done.report.iterations == 1
    assert sum(shares) == pytest.approx(1)


def test_a_network_can_be_conditioned_on_the_estimated_noise(
    monkeypatch: pytest.MonkeyPatch, sphere: Sphere
) -> None:
    torch.manual_seed(0)
    config = FlowConfig(
        edge_neighbours=(0,), augment_dims=5, hidden=8, filter="fbm", condition="graph",
        condition_neighbours=8, condition_hidden=8, condition_features=8, augment_flow="affine",
        patch_points=200, noise_conditioning=True, noise_unit=4.0,
    )  # fmt: skip
    inference = InferenceConfig(patch_radius=(4.0, 4.0), centred=True)
    noisy = 10.0 * sphere(1500, 0.03)
    sigmas: list[np.ndarray] = []
    original = CompiledBackend.run

    def listen(self: CompiledBackend, *given: Any) -> np.ndarray:
        sigmas.append(given[2])
        return original(self, *given)

    monkeypatch.setattr(CompiledBackend, "run", listen)
    run = Denoiser(PDFlow(config, inference).eval(), iterations=1, partitions=1, outliers="mark")
    moved = run(PointCloud(noisy)).cloud.points
    assert np.isfinite(moved).all()
    radius = np.sqrt(4 * 200 / 1500)  # of a cap with that share of a unit sphere's surface
    assert np.median(sigmas[0]) == pytest.approx(4 * 0.03 / radius, rel=0.15)
