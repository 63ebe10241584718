"""No point moves farther than its own noise explains."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from pdflow.cloud import PointCloud
from pdflow.errors import PdflowError
from pdflow.geometry.neighbors import NeighborSearch
from pdflow.model import PDFlow
from pdflow.noise.estimate import NoiseEstimate, estimate_noise
from pdflow.noise.known import known_noise
from pdflow.pipeline.denoise import Denoiser
from pdflow.pipeline.restraint import MOST_SIGMAS, longest_moves, noise_around

Sphere = Callable[..., np.ndarray]


def test_moves_are_bounded_by_the_noise_that_a_run_works_with(
    model: PDFlow, sphere: Sphere
) -> None:
    # The network is told of a tenth of the noise in one half of the cloud.
    points = sphere(1500)
    level = np.where(points[:, 0] > 0, 0.005, 0.05)
    run = Denoiser(model, iterations=2, noise=level)(PointCloud(points))
    moves = np.linalg.norm(run.cloud.points - points, axis=1)
    assert (moves <= MOST_SIGMAS * level * (1 + 1e-9)).all()
    at_bound = np.isclose(moves, MOST_SIGMAS * level, rtol=1e-9)
    assert run.report.held_back["bound"] == np.count_nonzero(at_bound) > 0


def test_the_bound_stops_no_point_of_an_ordinary_cloud(model: PDFlow, sphere: Sphere) -> None:
    cloud = PointCloud(sphere(1500))
    bounded, free = Denoiser(model)(cloud), Denoiser(model, max_move=np.inf)(cloud)
    assert bounded.report.held_back["bound"] == 0
    assert np.array_equal(bounded.cloud.points, free.cloud.points)


def test_without_noise_nothing_moves(model: PDFlow, sphere: Sphere) -> None:
    points = sphere(500)
    clean = Denoiser(model, noise=0)(PointCloud(points)).cloud.points
    assert np.array_equal(clean, points)


def test_the_level_of_a_point_is_that_of_its_nearest_query() -> None:
    queries = np.array([[0.0, 0, 0], [1, 0, 0]])
    noise = known_noise(NeighborSearch(queries), np.array([0.1, 0.3]))
    places = np.array([[0.2, 0, 0], [0.8, 0.1, 0], [5, 0, 0]])
    assert noise_around(noise, places).tolist() == [0.1, 0.3, 0.3]
    assert longest_moves(noise, places, None) == pytest.approx(MOST_SIGMAS * noise.at(places))
    assert longest_moves(noise, places, 0.2).tolist() == [0.2, 0.2, 0.2]


def test_one_level_holds_everywhere(sphere: Sphere) -> None:
    points = sphere(1500)
    everywhere = NoiseEstimate(0.2, 0.2, 1.0, True)
    assert (noise_around(everywhere, points) == 0.2).all()
    estimate = estimate_noise(points)
    assert (noise_around(estimate, points) >= estimate.sigma).all()


@pytest.mark.parametrize("length", [-1, np.nan, "far"])
def test_what_is_no_length_is_refused(model: PDFlow, length: object) -> None:
    with pytest.raises(PdflowError, match="max_move"):
        Denoiser(model, max_move=length)  # type: ignore[arg-type]
