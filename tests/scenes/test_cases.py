from __future__ import annotations

import numpy as np
import pytest

from pdflow.errors import PdflowError
from pdflow.geometry import closest_on_mesh
from pdflow.scenes.cases import HELD_OUT_SEEDS, KINDS, make_case, training_scan
from pdflow.scenes.surface import BUILDING, GROUND, NOISE, TREE

POINTS = 2000


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_makes_a_case_that_its_seed_decides(kind: str) -> None:
    case, again = (make_case(kind, HELD_OUT_SEEDS, POINTS) for _ in range(2))
    other = make_case(kind, HELD_OUT_SEEDS + 1, POINTS)
    trained = make_case(kind, 0, POINTS)
    assert np.array_equal(case.noisy, again.noisy)
    assert not np.array_equal(case.noisy[:100], other.noisy[:100])
    assert not np.array_equal(case.noisy[:100], trained.noisy[:100])
    count = len(case.clean)
    assert count == pytest.approx(POINTS, rel=0.1)
    assert case.noisy.shape == (len(case.sigma), 3)
    assert len(case.noisy) == len(case.outliers) == len(case.classes) >= count
    assert np.isfinite(case.noisy).all()
    assert closest_on_mesh(case.clean, case.mesh)[0].max() < (1e-12 * case.scan.radius) ** 2
    assert np.array_equal(np.isnan(case.sigma), case.outliers)
    level = np.sqrt(np.nanmean(case.sigma**2)) / case.scan.radius
    assert 0.2 * 0.01 < level < 1.05 * 0.01
    assert (case.classes[count:] == NOISE).all()
    assert bool(KINDS[kind].outliers) == bool(len(case.noisy) > count)


def test_plates_are_two_sigma_apart_whatever_the_level() -> None:
    for level in (0.005, 0.02):
        case = make_case("plates", HELD_OUT_SEEDS + 3, POINTS, level)
        lower, upper = np.split(case.mesh.vertices, 2)
        assert upper[0, 2] - lower[0, 2] == pytest.approx(2 * level)
    case = make_case("plates", HELD_OUT_SEEDS, POINTS, sigma=0.01)
    assert case.mesh.vertices[-1, 2] - case.mesh.vertices[: len(lower)][-1, 2] == pytest.approx(
        0.02
    )


def test_noise_can_be_in_metres() -> None:
    case = make_case("terrain-tile", HELD_OUT_SEEDS, POINTS, sigma=0.025)
    rays = ((case.noisy - case.clean) * case.scan.rays).sum(1)
    assert rays.std() == pytest.approx(0.025, rel=0.1)
    assert {GROUND, BUILDING, TREE} <= set(case.classes.tolist())


def test_clean_cases_are_clean() -> None:
    for kind in ("depth-camera", "registration", "quantised"):
        case = make_case(kind, HELD_OUT_SEEDS, POINTS, level=0.0)
        assert np.array_equal(case.noisy, case.clean)
        assert not case.outliers.any()


def test_the_share_of_outliers_is_of_the_points() -> None:
    case = make_case("outliers-rays", HELD_OUT_SEEDS, POINTS, outlier_share=0.2)
    assert case.outliers.sum() == round(0.2 * len(case.clean))


def test_training_scans_come_from_training_seeds_only() -> None:
    first, same, other = (training_scan(seed, (1000, 3000)) for seed in (7, 7, 8))
    assert np.array_equal(first.points, same.points)
    assert 900 <= len(first) <= 3300
    assert len(first) != len(other)
    for seed in (HELD_OUT_SEEDS, -1):
        with pytest.raises(PdflowError, match="held out for tests"):
            training_scan(seed)


def test_unknown_kinds_are_refused() -> None:
    with pytest.raises(PdflowError, match="no kind of case 'moon'"):
        make_case("moon", 0)


def test_a_scanner_that_sees_a_plate_from_its_side_takes_another_position() -> None:
    assert len(make_case("registration", 1484, 400).clean) == 400
