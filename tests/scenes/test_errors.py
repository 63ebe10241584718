from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pdflow.errors import PdflowError
from pdflow.geometry import knn
from pdflow.scenes.errors import (
    FAR_AND_GRAZING,
    NOISES,
    OUTLIERS,
    _correlated,
    add_errors,
    add_outliers,
    grazing_factor,
    mix_pixels,
)
from pdflow.scenes.scan import Scan, depth_jumps
from pdflow.scenes.scanners import SCANNERS
from pdflow.scenes.surfaces import SURFACES

SIGMA = 0.02


@pytest.fixture(scope="module")
def headed() -> Scan:
    """A room seen by a rotating head: many ranges, angles, and depth edges."""
    surface = SURFACES["room"](np.random.default_rng(0))
    return SCANNERS["rotating-head"](surface, 15_000, np.random.default_rng(0))


@pytest.mark.parametrize("kind", NOISES)
def test_errors_have_the_effective_sigma_along_the_normal(kind: str, headed: Scan) -> None:
    across, claimed = [], []
    for seed in range(6):  # smooth fields and moves of whole scans vary from one to the next
        measured = add_errors(headed, kind, SIGMA, np.random.default_rng(seed))
        offsets = measured.points - headed.points
        across.append((offsets * headed.normals).sum(1))
        claimed.append(measured.sigma)
        assert not measured.outliers.any()
    found = np.sqrt(np.mean(np.square(across)))
    assert found == pytest.approx(np.sqrt(np.mean(np.square(claimed))), rel=0.05)


@pytest.mark.parametrize("kind", NOISES)
def test_noise_is_drawn_by_its_seed_and_none_is_none(kind: str, headed: Scan) -> None:
    first, same, other = (
        add_errors(headed, kind, SIGMA, np.random.default_rng(seed)).points for seed in (0, 0, 1)
    )
    assert np.array_equal(first, same)
    assert not np.allclose(first, other)
    still = add_errors(headed, kind, 0.0, np.random.default_rng(0))
    assert np.array_equal(still.points, headed.points)
    assert not still.sigma.any()


@pytest.mark.parametrize("kind", ["ray", "range", "quantised", "correlated"])
def test_scanner_errors_point_along_the_ray_with_the_level_asked_for(
    kind: str, headed: Scan
) -> None:
    measured = add_errors(headed, kind, SIGMA, np.random.default_rng(2))
    offsets = measured.points - headed.points
    along = (offsets * headed.rays).sum(1)
    assert np.abs(offsets - along[:, None] * headed.rays).max() < 1e-9
    assert np.sqrt((along**2).mean()) == pytest.approx(SIGMA, rel=0.06)


def test_noise_grows_with_range_and_grazing_angle(headed: Scan) -> None:
    measured = add_errors(headed, "range", SIGMA, np.random.default_rng(1))
    along = measured.sigma / headed.cosines
    far, near = (headed.ranges > q for q in np.quantile(headed.ranges, [0.8, 0.2]))
    assert along[far].mean() > 1.5 * along[~near].mean()
    factor = grazing_factor(np.array([1.0, 1.0, 9.0]), np.array([1.0, 0.5, 1.0]), 1.0)
    assert factor.tolist() == [1.0, 2.0, FAR_AND_GRAZING[1]]


def test_quantised_ranges_are_whole_steps(headed: Scan) -> None:
    measured = add_errors(headed, "quantised", SIGMA, np.random.default_rng(0))
    along = ((measured.points - headed.points) * headed.rays).sum(1)
    steps = (headed.ranges + along) / (np.sqrt(6) * SIGMA)
    assert np.abs(steps - np.round(steps)).max() < 1e-6


@pytest.mark.parametrize("length", [1.5, 4.0])
def test_correlation_over_pixels_falls_at_its_length(length: float, pictured: Scan) -> None:
    """At a lag of `length` pixels 1/e of the smooth part, which is 85 % of the variance."""
    columns, rows = np.rint(pictured.pixels).astype(int).T
    products: dict[int, list[float]] = {1: [], round(length): [], 40: []}
    for seed in range(8):
        offsets, _ = _correlated(pictured, 1.0, np.random.default_rng(seed), length)
        image = np.full((pictured.scans.max() + 1, rows.max() + 1, columns.max() + 1), np.nan)
        image[pictured.scans, rows, columns] = (offsets * pictured.rays).sum(1)
        for lag, found in products.items():
            found.append(float(np.nanmean(image[:, :, lag:] * image[:, :, :-lag])))
    for lag, found in products.items():
        assert np.mean(found) == pytest.approx(0.85 * np.exp(-((lag / length) ** 2)), abs=0.08)


def test_places_stand_in_for_pixels_where_there_is_no_grid(scattered: Scan) -> None:
    offsets, _ = _correlated(scattered, 1.0, np.random.default_rng(0), 5.0)
    errors = offsets[:, 2] / scattered.cosines  # whichever side the scanner was on
    sq_distances, rows = knn(scattered.points, scattered.points, 2)
    near = np.sqrt(sq_distances[:, 1]) < scattered.spacing
    assert (errors * errors[rows[:, 1]])[near].mean() > 0.6
    far = np.random.default_rng(1).permutation(len(errors))
    assert abs((errors * errors[far]).mean()) < 0.1


def test_registration_moves_scans_as_a_whole_around_the_truth(headed: Scan) -> None:
    measured = add_errors(headed, "registration", SIGMA, np.random.default_rng(3))
    offsets = measured.points - headed.points
    assert np.abs(offsets.mean(0)).max() < 0.3 * SIGMA
    middles = [offsets[headed.scans == number].mean(0) for number in np.unique(headed.scans)]
    assert np.ptp(middles, axis=0).max() > 0.5 * SIGMA
    alone = replace(headed, scans=np.zeros(len(headed), np.int64))
    moved = add_errors(alone, "registration", SIGMA, np.random.default_rng(3))
    across = ((moved.points - headed.points) * headed.normals).sum(1)
    assert np.sqrt((across**2).mean()) == pytest.approx(SIGMA, rel=0.05)


def test_mixed_pixels_lie_between_both_sides_of_an_edge(headed: Scan) -> None:
    clean = add_errors(headed, "ray", 0.0, np.random.default_rng(0))
    mixed = mix_pixels(headed, clean, 0.5, np.random.default_rng(0))
    jumps = depth_jumps(headed)
    assert mixed.outliers.sum() == pytest.approx(0.5 * (jumps != 0).sum(), rel=0.3)
    along = ((mixed.points - headed.points) * headed.rays).sum(1)
    share = along[mixed.outliers] / jumps[mixed.outliers]
    assert 0.1 <= share.min() < share.max() <= 0.9
    assert np.array_equal(mixed.points[~mixed.outliers], headed.points[~mixed.outliers])
    assert np.array_equal(np.isnan(mixed.sigma), mixed.outliers)


@pytest.mark.parametrize("kind", OUTLIERS)
def test_outliers_come_after_the_other_rows(kind: str, headed: Scan) -> None:
    noisy = add_errors(headed, "independent", SIGMA, np.random.default_rng(0))
    measured = add_outliers(headed, noisy, kind, 0.2, np.random.default_rng(1))
    count = len(headed)
    assert measured.outliers.sum() == round(0.2 * count)
    assert measured.outliers[count:].all()
    assert np.array_equal(measured.points[:count], noisy.points)
    assert np.isnan(measured.sigma[count:]).all()
    away = np.sqrt(knn(headed.points, measured.points[count:], 1)[0][:, 0])
    assert (away > 4 * SIGMA).mean() > 0.5


def test_clumped_outliers_are_nearer_to_each_other_than_uniform_ones(headed: Scan) -> None:
    gaps = {}
    for kind in ("uniform", "clumped"):
        drawn = OUTLIERS[kind](headed, 500, np.random.default_rng(0))
        gaps[kind] = np.median(knn(drawn, drawn, 2)[0][:, 1])
    assert gaps["clumped"] < 0.2 * gaps["uniform"]


def test_outliers_of_a_flat_scan_leave_its_plane(scattered: Scan) -> None:
    drawn = OUTLIERS["uniform"](scattered, 1000, np.random.default_rng(0))
    assert np.abs(drawn[:, 2]).max() > 0.04 * scattered.radius


def test_unknown_kinds_are_refused(scattered: Scan) -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(PdflowError, match="no noise kind 'pink'"):
        add_errors(scattered, "pink", 0.1, rng)
    still = add_errors(scattered, "ray", 0.0, rng)
    with pytest.raises(PdflowError, match="no outlier kind 'pink'"):
        add_outliers(scattered, still, "pink", 0.1, rng)
