"""All metrics together: invariances, kinds of input, names, light imports, published figures."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from pdflow.cloud import PointCloud
from pdflow.errors import PdflowError
from pdflow.geometry.frame import unit_sphere
from pdflow.geometry.sampling import sample_mesh
from pdflow.mesh import TriangleMesh
from pdflow.metrics import METRICS, measure


@pytest.fixture
def shape(sphere: TriangleMesh) -> tuple[NDArray[np.float64], NDArray[np.float64], TriangleMesh]:
    """A noisy and a clean cloud of an ellipsoid, and its mesh."""
    mesh = TriangleMesh(sphere.vertices * [3, 2, 1] + [1, 0, 0], sphere.faces)
    clean, _ = sample_mesh(mesh, 2000, method="even", seed=0)
    noise = 0.02 * np.random.default_rng(0).standard_normal(clean.shape)
    return clean + noise, clean, mesh


def test_moving_and_scaling_all_three_changes_nothing(
    shape: tuple[NDArray[np.float64], NDArray[np.float64], TriangleMesh],
) -> None:
    pred, clean, mesh = shape
    names = [n for n in METRICS if not n.startswith("uniformity")]
    expected = measure(pred, clean, mesh, metrics=names)
    shift = np.array([1000.0, -5.0, 0.0])
    moved = TriangleMesh(250 * mesh.vertices + shift, mesh.faces)
    found = measure(250 * pred + shift, 250 * clean + shift, moved, metrics=names)
    assert found == pytest.approx(expected, rel=1e-6)


def test_turning_changes_nothing_but_the_size_of_the_frame(
    shape: tuple[NDArray[np.float64], NDArray[np.float64], TriangleMesh],
    rotation: NDArray[np.float64],
) -> None:
    """The bounding box does not turn with a shape, so its unit sphere may be another one."""
    pred, clean, mesh = shape
    turned = TriangleMesh(mesh.vertices @ rotation.T, mesh.faces)
    pairs = [(clean, clean @ rotation.T), (mesh.vertices, turned.vertices)]
    cloud_ratio, mesh_ratio = (unit_sphere(a).scale / unit_sphere(b).scale for a, b in pairs)
    names = ["cd_plain", "hd_plain", "p2s", "emd", "p2m_plain", "rms"]
    expected = measure(pred, clean, mesh, metrics=names)
    found = measure(pred @ rotation.T, clean @ rotation.T, turned, metrics=names)
    for name, value in expected.items():
        ratio = mesh_ratio if name in ("p2m_plain", "rms") else cloud_ratio
        assert found[name] == pytest.approx(value * ratio, rel=1e-9), name


def test_turning_a_shape_whose_box_turns_with_it_changes_nothing(
    noisy_ball: NDArray[np.float64], cube: TriangleMesh
) -> None:
    """A quarter turn maps bounding boxes onto bounding boxes, so the frame turns too."""
    quarter = np.array([[0.0, -1, 0], [1, 0, 0], [0, 0, 1]])
    names = [n for n in METRICS if not n.startswith(("uniformity", "emd", "sq_emd"))]
    clean, _ = sample_mesh(cube, 1000, seed=1)
    expected = measure(noisy_ball, clean, cube, metrics=names)
    turned = TriangleMesh(cube.vertices @ quarter.T, cube.faces)
    found = measure(noisy_ball @ quarter.T, clean @ quarter.T, turned, metrics=names)
    assert found == pytest.approx(expected, rel=1e-9)


def test_uniformity_does_not_depend_on_place_and_scale(
    shape: tuple[NDArray[np.float64], NDArray[np.float64], TriangleMesh],
) -> None:
    pred, clean, mesh = shape
    moved = TriangleMesh(mesh.vertices * 16 + 4, mesh.faces)
    expected = measure(pred, clean, mesh, metrics=["uniformity", "uniformity_ball"])
    found = measure(pred * 16 + 4, clean, moved, metrics=["uniformity", "uniformity_ball"])
    assert len(expected) == 10
    assert found == pytest.approx(expected, rel=1e-6)


def test_tensors_of_any_kind_are_accepted(
    shape: tuple[NDArray[np.float64], NDArray[np.float64], TriangleMesh],
) -> None:
    pred, clean, mesh = shape
    expected = measure(pred, clean, mesh)
    tensors = torch.tensor(pred, requires_grad=True), torch.tensor(clean)
    found = measure(*tensors, mesh)
    assert found == expected
    assert all(type(value) is float for value in found.values())
    half = measure(tensors[0].to(torch.bfloat16), clean.tolist(), mesh)
    assert half["cd"] == pytest.approx(expected["cd"], rel=0.1)


def test_clouds_are_accepted(
    shape: tuple[NDArray[np.float64], NDArray[np.float64], TriangleMesh],
) -> None:
    pred, clean, mesh = shape
    assert measure(PointCloud(pred), PointCloud(clean), mesh) == measure(pred, clean, mesh)


@pytest.mark.gpu
def test_tensors_on_a_gpu_are_accepted(
    shape: tuple[NDArray[np.float64], NDArray[np.float64], TriangleMesh],
) -> None:
    pred, clean, mesh = shape
    found = measure(torch.tensor(pred).cuda(), torch.tensor(clean).cuda(), mesh)
    assert found == measure(pred, clean, mesh)


def test_names_and_defaults(
    shape: tuple[NDArray[np.float64], NDArray[np.float64], TriangleMesh],
) -> None:
    pred, clean, mesh = shape
    assert list(measure(pred, clean)) == ["cd", "hd"]
    assert list(measure(pred, clean, mesh)) == ["cd", "hd", "p2m"]
    assert list(measure(pred, clean, metrics=["hd_plain", "cd"])) == ["hd_plain", "cd"]
    with pytest.raises(PdflowError, match="Unknown metric 'fid': choose from cd, cd_plain, hd"):
        measure(pred, clean, metrics=["fid"])
    with pytest.raises(PdflowError, match="p2m needs a mesh"):
        measure(pred, clean, metrics=["p2m"])
    with pytest.raises(PdflowError, match="No metric was named"):
        measure(pred, clean, metrics=[])


def test_squared_and_plain_variants_belong_together(
    shape: tuple[NDArray[np.float64], NDArray[np.float64], TriangleMesh],
) -> None:
    pred, clean, mesh = shape
    names = ["cd", "cd_plain", "hd", "hd_plain", "p2m", "p2m_plain", "p2s", "sq_p2s", "rms"]
    found = measure(pred, clean, mesh, metrics=names)
    assert found["hd"] == pytest.approx(found["hd_plain"] ** 2)
    assert found["cd_plain"] ** 2 / 2 <= found["cd"]  # mean of squares over square of means
    assert found["p2m_plain"] ** 2 / 2 <= found["p2m"]
    assert found["p2s"] ** 2 <= found["sq_p2s"]
    assert found["rms"] ** 2 <= found["p2m"]


def test_import_brings_neither_torch_nor_the_model() -> None:
    check = (
        "import sys, pdflow.metrics, pdflow.metrics.suite\n"
        "bad = [m for m in sys.modules if m == 'torch' or m.startswith(('pdflow.model',"
        " 'pdflow.flow', 'pdflow.weights', 'torch.'))]\n"
        "sys.exit(f'loaded {bad}' if bad else 0)"
    )
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def noisy_input(
    pack: np.lib.npyio.NpzFile, name: str, sigma: float
) -> tuple[NDArray[np.float64], NDArray[np.float64], TriangleMesh]:
    """A noisy and a clean cloud of 10K points, and the mesh, of one shape of PUSet."""
    low, high = pack[f"clean/10000/{name}/range"]
    clean = pack[f"clean/10000/{name}"] / 65535 * (high - low) + low
    noise = sigma * pack[f"radius/10000/{name}"] * (pack[f"draw/10000/{name}"] / 4096)
    return clean + noise, clean, TriangleMesh(pack[f"mesh/{name}/v"], pack[f"mesh/{name}/f"])


@pytest.mark.data
def test_benchmark_inputs_against_scipy_and_libigl(shared: Path) -> None:
    import igl
    from scipy.spatial import cKDTree

    pack = np.load(shared / "data" / "punet_test.npz")
    for name in ("duck", "camel", "Octahedron"):
        pred, clean, mesh = noisy_input(pack, name, 0.02)
        found = measure(pred, clean, mesh, metrics=["cd", "hd", "rms"])
        center = (clean.min(0) + clean.max(0)) / 2
        sq_radius = ((clean - center) ** 2).sum(1).max()
        there, back = cKDTree(clean).query(pred)[0] ** 2, cKDTree(pred).query(clean)[0] ** 2
        assert found["cd"] == pytest.approx((there.mean() + back.mean()) / sq_radius, rel=1e-9)
        assert found["hd"] == pytest.approx(max(there.max(), back.max()) / sq_radius, rel=1e-9)
        center = (mesh.vertices.min(0) + mesh.vertices.max(0)) / 2
        sq_radius = ((mesh.vertices - center) ** 2).sum(1).max()
        sq, _, _ = igl.point_mesh_squared_distance(pred, mesh.vertices, mesh.faces)
        assert found["rms"] == pytest.approx(np.sqrt(sq.mean() / sq_radius), rel=1e-9)


@pytest.mark.data
def test_benchmark_inputs_have_their_known_means(shared: Path) -> None:
    """All 20 shapes at 1 %; the other levels are in benchmarks/accuracy/bench_noisy_inputs.py."""
    pack = np.load(shared / "data" / "punet_test.npz")
    names = sorted({key.split("/")[1] for key in pack.files if key.startswith("mesh/")})
    rows = [measure(*noisy_input(pack, name, 0.01)) for name in names]
    mean = {key: np.mean([row[key] for row in rows]) for key in rows[0]}
    assert len(rows) == 20
    assert mean["cd"] == pytest.approx(3.69e-4, abs=0.005e-4)
    assert mean["p2m"] == pytest.approx(1.32e-4, abs=0.005e-4)
    assert mean["hd"] == pytest.approx(1.57e-3, abs=0.005e-3)
