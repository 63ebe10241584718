import numpy as np
import pytest

from pdflow.errors import PdflowError
from pdflow.geometry import Frame, unit_sphere


def test_the_centre_is_that_of_the_box_and_the_farthest_point_has_radius_one() -> None:
    # The mean of these points is not the centre of their box.
    points = np.array([[0.0, 0, 0], [0, 0, 1], [0, 0, 2], [10, 4, 2]])
    frame = unit_sphere(points)
    assert frame.center.tolist() == [5, 2, 1]
    radii = np.linalg.norm(frame.apply(points), axis=1)
    assert radii.max() == pytest.approx(1, abs=1e-15)
    assert frame.scale == pytest.approx(np.sqrt(25 + 4 + 1))


def test_undo_returns_utm_coordinates_to_a_micrometre() -> None:
    rng = np.random.default_rng(0)
    points = rng.random((1000, 3)) * 100 + [5e5, 5e6, 100]
    frame = unit_sphere(points)
    assert frame.apply(points).dtype == np.float64
    assert np.abs(frame.undo(frame.apply(points)) - points).max() < 1e-8


@pytest.mark.parametrize("rows", [1, 7])
def test_a_cloud_without_extent_is_only_centred(rows: int) -> None:
    points = np.tile([[3.0, -2.0, 5.0]], (rows, 1))
    frame = unit_sphere(points)
    assert frame.scale == 1.0
    assert frame.center.tolist() == [3, -2, 5]
    assert not frame.apply(points).any()


def test_a_frame_cannot_be_changed() -> None:
    frame = Frame(np.zeros(3), 1.0)
    with pytest.raises(AttributeError):
        frame.scale = 2.0  # type: ignore[misc]


@pytest.mark.parametrize(
    ("points", "said"),
    [
        (np.empty((0, 3)), "at least one point"),
        (np.zeros((4, 2)), r"\(4, 2\)"),
        (np.zeros(3), r"\(3,\)"),
        ([[0, 0, 0], [0, np.inf, 0]], "row 1"),
    ],
)
def test_what_has_no_sphere_is_refused(points: np.ndarray, said: str) -> None:
    with pytest.raises(PdflowError, match=said):
        unit_sphere(points)


def test_the_smallest_clouds_keep_their_scale():
    points = np.array([[0.0, 0.0, 0.0], [4e-300, 0.0, 0.0]])
    assert unit_sphere(points).scale == pytest.approx(2e-300)
