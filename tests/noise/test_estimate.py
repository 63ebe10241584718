from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from pdflow.errors import PdflowError
from pdflow.geometry.neighbors import NeighborSearch
from pdflow.noise.estimate import FEW_POINTS, NoiseEstimate, estimate_noise, estimate_remaining
from pdflow.noise.models import add_noise
from pdflow.scenes.cases import make_case

Array = np.ndarray


def sphere(count: int, rng: np.random.Generator) -> Array:
    points = rng.standard_normal((count, 3))
    return points / np.linalg.norm(points, axis=1, keepdims=True)


def cube(count: int, rng: np.random.Generator) -> Array:
    points = rng.uniform(-1, 1, (count, 3))
    points[np.arange(count), rng.integers(3, size=count)] = rng.choice([-1, 1], count)
    return points / np.sqrt(3)


def torus(count: int, rng: np.random.Generator) -> Array:
    around, along = rng.uniform(0, 2 * np.pi, (2, 2 * count))
    kept = rng.random(2 * count) < (0.7 + 0.3 * np.cos(around))
    around, along = around[kept][:count], along[kept][:count]
    ring = 0.7 + 0.3 * np.cos(around)
    return np.stack([ring * np.cos(along), ring * np.sin(along), 0.3 * np.sin(around)], axis=1)


def plate(count: int, rng: np.random.Generator) -> Array:
    """Two sheets, a tenth of the plate's side apart, and the rims between them."""
    sides = np.array([1.0, 1.0, 0.1])
    areas = np.array([0.1, 0.1, 1.0])
    points = rng.uniform(-0.7, 0.7, (count, 3)) * sides
    face = rng.choice(3, count, p=areas / areas.sum())
    points[np.arange(count), face] = rng.choice([-0.7, 0.7], count) * sides[face]
    return points


def plane(count: int, rng: np.random.Generator) -> Array:
    return rng.uniform(-0.7, 0.7, (count, 3)) * [1, 1, 0]


SHAPES = {"sphere": sphere, "cube": cube, "torus": torus, "plate": plate, "plane": plane}


def noisy(shape: str, count: int, sigma: float, seed: int = 0) -> Array:
    rng = np.random.default_rng(seed)
    return SHAPES[shape](count, rng) + sigma * rng.standard_normal((count, 3))


class TestLevel:
    @pytest.mark.parametrize("sigma", [0.01, 0.02, 0.03])
    @pytest.mark.parametrize("count", [10_000, 50_000])
    @pytest.mark.parametrize("shape", SHAPES)
    def test_is_that_of_the_noise(self, shape: str, count: int, sigma: float) -> None:
        assert estimate_noise(noisy(shape, count, sigma)).sigma == pytest.approx(sigma, rel=0.15)

    @pytest.mark.parametrize("shape", ["sphere", "torus", "plane"])
    def test_is_that_of_the_noise_in_small_clouds(self, shape: str) -> None:
        assert estimate_noise(noisy(shape, 2000, 0.03)).sigma == pytest.approx(0.03, rel=0.2)

    @pytest.mark.parametrize("shape", SHAPES)
    def test_is_next_to_nothing_in_clean_clouds(self, shape: str) -> None:
        assert estimate_noise(noisy(shape, 10_000, 0)).relative < 0.0015

    @pytest.mark.parametrize("shape", SHAPES)
    def test_grows_with_the_noise(self, shape: str) -> None:
        levels = (0, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.05)
        sigmas = [estimate_noise(noisy(shape, 10_000, sigma)).sigma for sigma in levels]
        assert (np.diff(sigmas) > 0).all()
        assert sigmas[1] == pytest.approx(0.0025, rel=0.3)

    def test_holds_where_noise_is_wider_than_any_neighbourhood(self) -> None:
        """A ball of 304 points has half of the noise for its radius: the cloud is thinned."""
        estimate = estimate_noise(noisy("sphere", 300_000, 0.05))
        assert estimate.sigma_over_spacing > 4
        assert estimate.sigma == pytest.approx(0.05, rel=0.1)

    def test_is_told_of_clouds_of_uneven_density(self) -> None:
        rng = np.random.default_rng(1)
        points = torus(60_000, rng)
        points = points[rng.random(len(points)) < np.exp(2 * (points[:, 0] - 1))]
        points += 0.015 * rng.standard_normal(points.shape)
        assert estimate_noise(points).sigma == pytest.approx(0.015, rel=0.15)

    def test_is_told_of_parts_far_from_each_other(self) -> None:
        near, far = noisy("sphere", 5000, 0.02, seed=1), noisy("cube", 5000, 0.02, seed=2)
        both = np.concatenate([near, far + np.array([1e4, 0, 0])])
        estimate = estimate_noise(both)
        assert estimate.sigma == pytest.approx(0.02, rel=0.15)
        assert estimate.relative == pytest.approx(0.02 / 5e3, rel=0.2)

    def test_does_not_follow_outliers(self) -> None:
        points = noisy("torus", 10_000, 0.01)
        points[::50] = np.random.default_rng(5).uniform(-1, 1, points[::50].shape)
        assert estimate_noise(points).sigma == pytest.approx(0.01, rel=0.2)

    @pytest.mark.parametrize(("kind", "std"), [("laplace", 2**0.5), ("anisotropic", 1.0)])
    def test_is_near_the_standard_deviation_of_other_noise(self, kind: str, std: float) -> None:
        clean = torus(20_000, np.random.default_rng(3))
        points = add_noise(clean, kind, 0.02, seed=4)
        assert estimate_noise(points).relative == pytest.approx(0.02 * std, rel=0.25)

    @pytest.mark.data
    def test_is_that_of_a_real_scan(self, shared: Path) -> None:
        """A facade and a street; a scanner of 2 cm along the range, and beams that differ."""
        with np.load(shared / "data/ruemadame_28.npz") as scan:
            estimate = estimate_noise(scan["points"])
        assert 0.005 < estimate.sigma < 0.04


class TestRelative:
    @pytest.mark.parametrize("shape", ["sphere", "cube", "torus"])
    def test_refers_to_the_radius_of_the_clean_cloud(self, shape: str) -> None:
        """Shapes here have radius 1; noise of 5 % widens them by 10 to 20 %."""
        estimate = estimate_noise(noisy(shape, 20_000, 0.05))
        assert estimate.relative == pytest.approx(estimate.sigma, rel=0.12)

    def test_spacing_is_the_median_distance_to_the_nearest_point(self) -> None:
        grid = np.stack(np.meshgrid(*2 * [np.arange(40.0)], [0.0]), axis=-1).reshape(-1, 3)
        estimate = estimate_noise(grid * 0.25)
        assert estimate.spacing == pytest.approx(0.25)
        assert estimate.sigma_over_spacing == pytest.approx(estimate.sigma / 0.25)


class TestInvariance:
    POINTS = noisy("torus", 6000, 0.02)

    @staticmethod
    @cache
    def estimate() -> NoiseEstimate:
        return estimate_noise(TestInvariance.POINTS)

    @pytest.mark.parametrize(("scale", "shift"), [(1e-9, 0), (1000, -3), (7, 5e6), (1e150, 0)])
    def test_scale_and_place(self, scale: float, shift: float) -> None:
        moved = estimate_noise(self.POINTS * scale + shift)
        assert moved.sigma == pytest.approx(scale * self.estimate().sigma, rel=1e-6)
        assert moved.spacing == pytest.approx(scale * self.estimate().spacing, rel=1e-6)
        assert moved.relative == pytest.approx(self.estimate().relative, rel=1e-6)

    def test_order_of_rows(self) -> None:
        order = np.random.default_rng(0).permutation(len(self.POINTS))
        assert estimate_noise(self.POINTS[order]) == self.estimate()

    def test_duplicates(self) -> None:
        assert estimate_noise(np.tile(self.POINTS, (3, 1))) == self.estimate()

    def test_rotation(self) -> None:
        turn = np.linalg.qr(np.random.default_rng(2).standard_normal((3, 3)))[0]
        turned = estimate_noise(self.POINTS @ turn)
        assert turned.sigma == pytest.approx(self.estimate().sigma, rel=1e-5)

    @pytest.mark.parametrize(
        ("count", "sigma"), [(6000, 0.02), (1500, 0.03), (30_000, 0.05), (9000, 0.0)]
    )
    def test_a_tiny_change_of_coordinates_changes_little(self, count: int, sigma: float) -> None:
        """The third cloud is thinned, the fourth is clean."""
        points = noisy("torus", count, sigma)
        before = estimate_noise(points)
        shift = np.random.default_rng(1).uniform(-1e-7, 1e-7, points.shape)
        after = estimate_noise(points + shift)
        assert after.sigma == pytest.approx(before.sigma, rel=1e-3)
        assert after.kind == before.kind
        places = points[::100]
        np.testing.assert_allclose(after.at(places), before.at(places), rtol=0.02)

    def test_the_same_seed_gives_the_same_bits(self) -> None:
        assert estimate_noise(self.POINTS, seed=0) == self.estimate()

    def test_the_seed_matters_little(self) -> None:
        other = estimate_noise(self.POINTS, seed=8)
        assert other != self.estimate()
        assert other.sigma == pytest.approx(self.estimate().sigma, rel=0.03)


class TestCloudsThatSayLittle:
    @pytest.mark.parametrize("count", [0, 1, 2, 29])
    def test_too_few_points_have_no_noise_and_say_so(self, count: int) -> None:
        estimate = estimate_noise(noisy("sphere", count, 0.1))
        assert (estimate.sigma, estimate.relative, estimate.reliable) == (0, 0, False)
        assert (estimate.spacing > 0) == (count > 1)

    @pytest.mark.parametrize("count", [30, 31, 100, FEW_POINTS - 1])
    def test_few_points_give_a_rough_answer_and_say_so(self, count: int) -> None:
        estimate = estimate_noise(noisy("sphere", count, 0.1))
        assert 0 <= estimate.sigma < 0.3
        assert not estimate.reliable

    def test_enough_points_are_reliable(self) -> None:
        assert estimate_noise(noisy("sphere", FEW_POINTS, 0.1)).reliable

    def test_duplicates_are_not_more_points(self) -> None:
        estimate = estimate_noise(np.tile(noisy("sphere", 20, 0.1), (50, 1)))
        assert (estimate.sigma, estimate.reliable) == (0, False)

    def test_one_place(self) -> None:
        assert estimate_noise(np.full((500, 3), 7.0)) == NoiseEstimate(0, 0, 0, False)

    def test_a_line(self) -> None:
        line = np.random.default_rng(0).random((2000, 1)) * [[1.0, 2.0, 3.0]]
        assert estimate_noise(line).relative < 0.001

    def test_a_grid_in_a_plane(self) -> None:
        grid = np.stack(np.meshgrid(*2 * [np.arange(80.0)], [5e6]), axis=-1).reshape(-1, 3)
        assert estimate_noise(grid).sigma_over_spacing < 0.05

    def test_bad_points_are_refused(self) -> None:
        with pytest.raises(PdflowError, match="NaN or infinite"):
            estimate_noise([[0, 0, np.nan]])
        with pytest.raises(PdflowError, match="shape"):
            estimate_noise(np.zeros((5, 2)))
        with pytest.raises(PdflowError, match="seed"):
            estimate_noise(np.zeros((5, 3)), seed=-1)


def test_a_search_gives_the_estimate_of_its_points() -> None:
    rng = np.random.default_rng(5)
    points = rng.normal(size=(3000, 3)) * [1, 1, 0.02]
    for cloud in (points, np.concatenate([points[:500]] * 4)):
        alone, shared = estimate_noise(cloud), estimate_noise(NeighborSearch(cloud))
        assert shared == alone
        assert np.array_equal(shared.local, alone.local)


def test_clumps_of_few_points_far_away_do_not_vote() -> None:
    rng = np.random.default_rng(3)
    sphere = rng.normal(size=(1500, 3))
    sphere /= np.linalg.norm(sphere, axis=1, keepdims=True)
    noisy = sphere + rng.normal(size=sphere.shape) * 0.04
    clumps = [noisy[:15] + np.array([100.0 * (i + 1), 0, 0]) for i in range(20)]
    alone, among = (estimate_noise(c) for c in (noisy, np.concatenate([noisy, *clumps])))
    assert among.sigma == pytest.approx(alone.sigma, rel=0.1)
    assert among.at(clumps[0][:1])[0] < 3 * alone.sigma


def test_noise_is_that_around_a_place() -> None:
    """A third of a plane is noisy, the rest is quiet."""
    rng = np.random.default_rng(4)
    plane = rng.random((6000, 3)) * [3, 1, 0]
    noisy = plane + np.where(plane[:, :1] < 1, 0.02, 0.0) * rng.normal(size=plane.shape)
    found = estimate_noise(noisy)
    loud, quiet = found.at(np.array([[0.4, 0.5, 0.0], [2.4, 0.5, 0.0]]))
    assert 0.005 < found.sigma < 0.015
    assert quiet < 0.6 * found.sigma
    assert found.sigma <= loud < 0.022
    empty = NoiseEstimate(0.5, 0.5, 0.1, True)
    assert empty.at(np.zeros((2, 3))).tolist() == [0.5, 0.5]


class TestScans:
    """Scenes with seeds that the network was not fitted to."""

    @pytest.mark.parametrize("kind", ["strokes", "sparse-detail", "sharp-edges", "rods"])
    def test_clean_detail_is_not_taken_for_noise(self, kind: str) -> None:
        case = make_case(kind, 20_001, 4000, 0.0)
        found = estimate_noise(case.noisy)
        assert found.sigma_over_spacing < 0.05
        assert found.at(case.noisy[::10]).max() < 0.15 * found.spacing

    @pytest.mark.parametrize("kind", ["scan-lines", "strokes", "rods", "fading", "rotating-head"])
    def test_independent_noise(self, kind: str) -> None:
        case = make_case(kind, 20_001, 4000, 0.01)
        truth = float(np.sqrt(np.nanmean(case.sigma**2)))
        assert estimate_noise(case.noisy).sigma == pytest.approx(truth, rel=0.3)

    @pytest.mark.parametrize("kind", ["depth-camera", "correlated", "registration"])
    def test_correlated_noise(self, kind: str) -> None:
        case = make_case(kind, 20_000, 4000, 0.01)
        truth = float(np.sqrt(np.nanmean(case.sigma**2)))
        found = estimate_noise(case.noisy)
        assert truth / 1.6 < found.sigma < 1.6 * truth

    def test_correlated_noise_is_called_so(self) -> None:
        case = make_case("depth-camera", 20_003, 4000, 0.005)
        assert estimate_noise(case.noisy).kind == "correlated"

    def test_independent_noise_is_called_so(self) -> None:
        found = estimate_noise(noisy("torus", 5000, 0.01))
        assert found.kind == "independent"
        assert found.error < 0.2

    def test_a_clean_cloud_has_no_kind(self) -> None:
        assert estimate_noise(noisy("torus", 5000, 0.0)).kind == "none"


@pytest.mark.parametrize("sigma", [0.002, 0.02])
def test_noise_that_remains_is_measured_at_fewer_places(sigma: float) -> None:
    rng = np.random.default_rng(4)
    noisy = torus(12_000, rng) + sigma * rng.standard_normal((12_000, 3))
    whole, fewer = estimate_noise(noisy), estimate_remaining(noisy)
    assert 300 < len(fewer.queries) < 0.7 * len(whole.queries)
    assert abs(fewer.sigma / whole.sigma - 1) < 0.15
    assert len(fewer.log_factors) == 0
