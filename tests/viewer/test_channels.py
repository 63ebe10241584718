from __future__ import annotations

import numpy as np
import pytest

from pdflow import PointCloud
from pdflow.viewer.channels import channels_of, scalar


def values_of(channel):
    """The numbers that the page shows."""
    top = np.iinfo(channel.values.dtype).max
    values = channel.low + (channel.values - 1.0) / (top - 1) * (channel.high - channel.low)
    return np.where(channel.values == 0, np.nan, values)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int32, np.uint16])
def test_scalars_are_off_by_half_a_step_at_most(dtype):
    values = (np.random.default_rng(0).random(1000) * 60_000).astype(dtype)
    channel = scalar("quality", values, "m")
    step = np.ptp(values.astype(float)) / 65534
    assert np.abs(values_of(channel) - values).max() <= 0.5001 * step


def test_small_integers_stay_exact():
    values = np.array([-100, 0, 3, 154], np.int16)
    channel = scalar("quality", values, "m")
    assert channel.values.dtype == np.uint8
    np.testing.assert_array_equal(values_of(channel), values)


def test_values_that_are_not_there_are_marked():
    channel = scalar("quality", np.array([np.nan, 1.0, np.inf, 2.0]), "m")
    np.testing.assert_array_equal(values_of(channel), [np.nan, 1, np.nan, 2])
    assert scalar("quality", np.full(3, np.nan), "m").values.tolist() == [0, 0, 0]


def test_huge_ranges_do_not_overflow():
    channel = scalar("quality", np.array([-1.7e308, 0.0, 1.7e308]), "m")
    assert channel.values.tolist() == [1, 32768, 65535]


def test_outliers_do_not_set_the_range_of_colours():
    values = np.append(np.linspace(0, 1, 1000), 1e6)
    assert scalar("quality", values, "m").shown[1] < 1
    assert scalar("error", values + 0.5, "m").shown[0] == 0


def test_attributes_become_channels():
    random = np.random.default_rng(0)
    attributes = {
        "colors": random.integers(0, 65536, (5, 3), dtype=np.uint16),
        "normals": random.random((5, 3)),
        "displacement": np.tile([3.0, 0.0, 4.0], (5, 1)),
        "classification": np.array([2, 2, 6, 7, 18], np.uint8),
        "outlier": np.array([True, False, False, False, True]),
        "label": np.array(list("abcde")),
    }
    channels = {c.name: c for c in channels_of(PointCloud(random.random((5, 3)), attributes), "m")}
    assert set(channels) == {"colors", "displacement", "classification", "outlier"}
    np.testing.assert_array_equal(channels["colors"].values, attributes["colors"] >> 8)
    assert (channels["displacement"].low, channels["displacement"].unit) == (5.0, "m")
    assert (channels["classification"].kind, channels["classification"].unit) == ("classes", "")
    assert channels["outlier"].values.tolist() == [2, 1, 1, 1, 2]


@pytest.mark.parametrize(
    ("colors", "expected"),
    [
        (np.array([[0.0, 0.5, 2.0]]), [0, 128, 255]),
        (np.array([[0, 7, 255]], np.uint16), [0, 7, 255]),
        (np.array([[0, 7, 65535]], np.uint16), [0, 0, 255]),
        (np.array([[-3, 7, 300]], np.int64), [0, 7, 255]),
    ],
    ids=["floats", "8 bits in 16", "16 bits", "out of range"],
)
def test_colours_of_any_dtype_become_bytes(colors, expected):
    (channel,) = channels_of(PointCloud([[0, 0, 0]], {"colors": colors}), "")
    assert channel.values.tolist() == [expected]
