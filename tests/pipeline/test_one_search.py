"""A run builds one tree for each state of the cloud, and prepares the network once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pdflow.backends.compiled.network import CompiledNetwork
from pdflow.cloud import PointCloud
from pdflow.geometry import farthest, neighbors
from pdflow.pipeline.denoise import Denoiser
from pdflow.weights import load_model


@pytest.fixture
def trees(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Points of every tree that is built."""
    sizes: list[int] = []
    original = neighbors.build_tree

    def count(points: np.ndarray, leaf_size: int) -> Any:
        sizes.append(len(points))
        return original(points, leaf_size)

    monkeypatch.setattr(neighbors, "build_tree", count)
    monkeypatch.setattr(farthest, "build_tree", count)
    return sizes


def noisy_sphere(outliers: int = 0, level: float = 0.03) -> PointCloud:
    rng = np.random.default_rng(0)
    points = rng.normal(size=(3000, 3))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    points += level * rng.normal(size=points.shape)
    return PointCloud(np.concatenate([points, rng.uniform(4, 9, (outliers, 3))]))


@pytest.mark.parametrize("outliers", [0, 5])
def test_two_passes_need_three_trees(outliers: int, trees: list[int]) -> None:
    run = Denoiser(load_model("pdflow"), iterations=2, partitions=1)
    done = run(noisy_sphere(outliers))
    assert done.report.outliers == outliers
    assert sum(size >= 3000 for size in trees) == 3


def test_two_scales_need_no_tree_of_their_own(trees: list[int]) -> None:
    """That of the fine answer is fitted to the blended one."""
    report = Denoiser(load_model("pdflow"))(noisy_sphere(level=0.05)).report
    assert (report.partitions, report.coarse_partitions) == (1, 2)
    assert sum(size == 3000 for size in trees) == 1 + report.iterations


def test_resampling_needs_one_more_for_the_union_of_patches(trees: list[int]) -> None:
    run = Denoiser(load_model("pdflow"), mode="resample", iterations=2, partitions=1)
    run(noisy_sphere())
    assert sum(size == 3000 for size in trees) == 3
    assert sum(size > 3000 for size in trees) == 1


def test_the_network_is_prepared_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []
    original = CompiledNetwork.__init__

    def count(self: CompiledNetwork, *given: Any) -> None:
        made.append(self)
        original(self, *given)

    monkeypatch.setattr(CompiledNetwork, "__init__", count)
    Denoiser(load_model("pdflow"), iterations=2, partitions=2)(noisy_sphere())
    assert len(made) == 1
