from __future__ import annotations

import gzip
import json

import numpy as np
import pytest

from pdflow import PointCloud
from pdflow.viewer.pack import STEPS, encode, pack
from pdflow.viewer.scene import build_scene


def unpack(data):
    """The manifest, and a function that decodes an array as `page/data.js` does."""
    block = gzip.decompress(data)
    size = int.from_bytes(block[:4], "little")
    manifest, arrays = json.loads(block[4 : 4 + size]), block[4 + size :]

    def array(entry, count):
        planes = np.frombuffer(
            arrays, np.uint8, count * entry["width"] * entry["bits"] // 8, entry["offset"]
        ).reshape(-1, entry["width"], count)
        code = sum(plane.astype(np.int64) << (8 * k) for k, plane in enumerate(planes))
        steps = (code >> 1) ^ -(code & 1)
        return (np.cumsum(steps, axis=1) % 2 ** entry["bits"]).T

    return manifest, array


def restored(manifest, array, index):
    """Points of a cloud as the page shows them."""
    cloud = manifest["clouds"][index]
    share = array(cloud["positions"], cloud["count"]) / STEPS - 0.5
    return np.array(manifest["center"]) + share * manifest["side"]


@pytest.fixture
def clouds():
    random = np.random.default_rng(0)
    points = np.array([5e5, 5e6, 100.0]) + random.random((3000, 3)) * [20, 30, 5]
    attributes = {"intensity": random.integers(0, 60_000, 3000, dtype=np.uint16)}
    before = PointCloud(points, attributes)
    return [("a", before), ("b", before.with_points(points + 0.01 * random.normal(size=(3000, 3))))]


def test_points_are_off_by_half_a_step_at_most(clouds):
    scene = build_scene(clouds)
    manifest, array = unpack(pack(scene))
    step = manifest["side"] / STEPS
    assert step == pytest.approx(30 / STEPS, rel=0.01)
    for index, cloud in enumerate(scene.clouds):
        assert np.abs(restored(manifest, array, index) - cloud.points).max() <= 0.5001 * step


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
@pytest.mark.parametrize("width", [1, 3])
def test_any_numbers_are_decoded_to_themselves(dtype, width):
    values = np.random.default_rng(0).integers(0, np.iinfo(dtype).max, (500, width), dtype, True)
    head = json.dumps({}).encode()
    block = gzip.compress(len(head).to_bytes(4, "little") + head + encode(values))
    _, array = unpack(block)
    entry = {"offset": 0, "width": width, "bits": 8 * values.itemsize}
    np.testing.assert_array_equal(array(entry, len(values)), values)


def test_values_stay_with_their_points(clouds):
    before = clouds[0][1]
    manifest, array = unpack(pack(build_scene(clouds)))
    (intensity,) = [c for c in manifest["clouds"][0]["channels"] if c["name"] == "intensity"]
    shown = restored(manifest, array, 0)
    nearest = np.linalg.norm(shown[:50, None] - before.points, axis=2).argmin(1)
    codes = array(intensity["data"], len(before))[:50, 0]
    values = intensity["low"] + (codes - 1) / 65534 * (intensity["high"] - intensity["low"])
    np.testing.assert_allclose(values, before.attributes["intensity"][nearest], atol=0.6)


def test_what_two_clouds_share_is_stored_once(clouds):
    manifest, _ = unpack(pack(build_scene(clouds)))
    first, second = (
        {c["name"]: c["data"]["offset"] for c in cloud["channels"]} for cloud in manifest["clouds"]
    )
    assert first == second
    assert first["intensity"] != first["displacement"]
    assert manifest["clouds"][0]["positions"] != manifest["clouds"][1]["positions"]


def test_the_same_clouds_give_the_same_bytes(clouds):
    assert pack(build_scene(clouds)) == pack(build_scene(clouds))


def test_the_camera_ignores_outliers(clouds):
    points = np.vstack([clouds[0][1].points, clouds[0][1].points[:1] + 3000])
    manifest, _ = unpack(pack(build_scene([("a", PointCloud(points))])))
    assert manifest["clouds"][0]["focus"][3] * manifest["side"] < 20


@pytest.mark.parametrize("points", [[[1, 2, 3]], [[1, 2, 3]] * 4], ids=["one point", "duplicates"])
def test_clouds_without_extent_are_packed(points):
    manifest, array = unpack(pack(build_scene([("a", PointCloud(points))])))
    np.testing.assert_allclose(restored(manifest, array, 0), points, atol=1e-5)


def test_random_colours_and_values_stay_below_25_bytes_a_pair_of_points():
    random = np.random.default_rng(0)
    count = 100_000
    angles = random.random((count, 2)) * [2 * np.pi, np.pi]
    clean = np.stack([np.cos(angles[:, 0]), np.sin(angles[:, 0]), np.cos(angles[:, 1])], axis=1)
    attributes = {
        "colors": random.integers(0, 256, (count, 3), dtype=np.uint8),
        "intensity": random.integers(0, 65536, count, dtype=np.uint16),
    }
    noisy = PointCloud(clean + 0.02 * random.normal(size=clean.shape), attributes)
    size = len(pack(build_scene([("a", noisy), ("b", noisy.with_points(clean))], clean)))
    assert 10 * size * 4 / 3 < 25e6  # base64, and a tenth of twice a million points
