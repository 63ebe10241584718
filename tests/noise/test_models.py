import numpy as np
import pytest

from pdflow.errors import PdflowError
from pdflow.geometry import unit_sphere
from pdflow.noise import KINDS, add_noise
from pdflow.noise.kinds import ANISOTROPIC_COVARIANCE

COUNT = 40_000
LEVEL = 0.03
RADIUS = 250.0

# Covariance of the offsets at s = 1, from the formulas in their descriptions.
COVARIANCES = {
    "gaussian": np.eye(3),
    "anisotropic": np.array([[1, -1 / 2, -1 / 4], [-1 / 2, 1, -1 / 4], [-1 / 4, -1 / 4, 1]]),
    "unidirectional": np.diag([1.0, 0, 0]),
    "uniform": np.eye(3) / 5,
    "discrete": np.eye(3) * 0.2,
    "laplace": np.eye(3) * 2,
}


@pytest.fixture(scope="module")
def clean() -> np.ndarray:
    """Points in a ball far from the origin, whose bounding sphere has the radius 250."""
    rng = np.random.default_rng(0)
    directions = rng.normal(size=(COUNT, 3))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    points = directions * rng.random((COUNT, 1)) * 200
    points[:6] = np.concatenate([np.eye(3), -np.eye(3)]) * RADIUS
    return points + np.array([5e5, 5e6, 0])


def offsets(clean: np.ndarray, kind: str, seed: int = 0) -> np.ndarray:
    """The noise in units of s."""
    return (add_noise(clean, kind, LEVEL, seed) - clean) / (LEVEL * RADIUS)


def test_the_list_of_kinds_is_the_documented_one() -> None:
    assert set(KINDS) == set(COVARIANCES)
    assert np.array_equal(COVARIANCES["anisotropic"], ANISOTROPIC_COVARIANCE)


@pytest.mark.parametrize("kind", KINDS)
def test_mean_and_covariance_are_those_of_the_formula(clean: np.ndarray, kind: str) -> None:
    assert unit_sphere(clean).scale == pytest.approx(RADIUS)
    noise = offsets(clean, kind)
    expected = COVARIANCES[kind]
    assert np.abs(noise.mean(0)).max() < 5 * np.sqrt(expected.max() / COUNT)
    # Five standard errors of a covariance; the factor covers the long tails of Laplace.
    assert np.abs(np.cov(noise.T) - expected).max() < 5 * np.sqrt(6 / COUNT) * expected.max()


@pytest.mark.parametrize("kind", KINDS)
def test_the_level_is_relative_to_the_radius(clean: np.ndarray, kind: str) -> None:
    center = unit_sphere(clean).center
    larger = (clean - center) * 7 + center
    ours = add_noise(clean, kind, LEVEL) - clean
    assert np.allclose(add_noise(larger, kind, LEVEL) - larger, 7 * ours, atol=1e-6)
    assert np.allclose(add_noise(clean, kind, 2 * LEVEL) - clean, 2 * ours, atol=1e-6)


def test_gaussian_tails_are_gaussian(clean: np.ndarray) -> None:
    noise = offsets(clean, "gaussian")
    assert abs((np.abs(noise) > 1).mean() - 0.3173) < 0.01
    assert abs((noise**4).mean() - 3) < 0.2


def test_laplace_tails_are_exponential(clean: np.ndarray) -> None:
    noise = np.abs(offsets(clean, "laplace"))
    for bound in (0.5, 1.0, 3.0):
        assert abs((noise > bound).mean() - np.exp(-bound)) < 0.01


def test_uniform_noise_fills_a_ball_evenly(clean: np.ndarray) -> None:
    radii = np.linalg.norm(offsets(clean, "uniform"), axis=1)
    assert 0.99 < radii.max() <= 1 + 1e-6
    for bound in (0.3, 0.5, 0.8):
        assert abs((radii < bound).mean() - bound**3) < 0.01


def test_discrete_noise_has_seven_values(clean: np.ndarray) -> None:
    noise = offsets(clean, "discrete")
    rounded = np.round(noise)
    assert np.abs(noise - rounded).max() < 1e-6
    values, counts = np.unique(rounded, axis=0, return_counts=True)
    assert sorted(map(tuple, values)) == sorted(
        [(0, 0, 0), (1, 0, 0), (-1, 0, 0), (0, 1, 0), (0, -1, 0), (0, 0, 1), (0, 0, -1)]
    )
    moved = np.abs(values).sum(1) == 1
    assert np.abs(counts[moved] / COUNT - 0.1).max() < 0.01
    assert abs(counts[~moved][0] / COUNT - 0.4) < 0.015


def test_unidirectional_noise_leaves_two_axes_alone(clean: np.ndarray) -> None:
    noisy = add_noise(clean, "unidirectional", LEVEL)
    assert np.array_equal(noisy[:, 1:], clean[:, 1:])
    assert (noisy[:, 0] != clean[:, 0]).all()


@pytest.mark.parametrize("kind", KINDS)
def test_a_seed_repeats_the_noise_and_another_does_not(kind: str) -> None:
    clean = np.random.default_rng(1).random((200, 3))
    first, again, other = (add_noise(clean, kind, 0.02, seed=s) for s in (5, 5, 6))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize("kind", KINDS)
def test_no_level_no_change_and_the_input_is_never_touched(kind: str) -> None:
    clean = np.random.default_rng(2).random((50, 3))
    before = clean.copy()
    same = add_noise(clean, kind, 0.0)
    assert np.array_equal(same, clean)
    same += 1
    add_noise(clean, kind, 0.5)
    assert np.array_equal(clean, before)
    assert add_noise(np.empty((0, 3)), kind, 0.1).shape == (0, 3)


@pytest.mark.parametrize("level", [-0.01, np.nan, np.inf])
def test_impossible_levels_are_refused(level: float) -> None:
    with pytest.raises(PdflowError, match=f"noise level {level}"):
        add_noise(np.eye(3), "gaussian", level)


def test_bad_requests_are_refused() -> None:
    with pytest.raises(PdflowError, match="'salt': choose one of gaussian"):
        add_noise(np.eye(3), "salt", 0.1)
    with pytest.raises(PdflowError, match="seed -3"):
        add_noise(np.eye(3), "gaussian", 0.1, seed=-3)
    with pytest.raises(PdflowError, match="row 0"):
        add_noise([[np.nan, 0, 0]], "gaussian", 0.1)


@pytest.mark.parametrize("count", [1, 5])
def test_a_cloud_without_extent_has_no_relative_noise(count: int) -> None:
    clean = np.full((count, 3), 7.0)
    with pytest.raises(PdflowError, match="no extent"):
        add_noise(clean, "gaussian", 0.02)
    assert np.array_equal(add_noise(clean, "gaussian", 0.0), clean)
