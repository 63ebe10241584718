"""Every layout that people have on disk becomes something to train on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from pdflow import TriangleMesh, write_mesh
from pdflow.errors import PdflowError
from pdflow.train.folders import read_source
from pdflow.train.shapes import ReadyPatches, Shapes

RESOLUTIONS = (100, 200)


def _read(folder: Path) -> Shapes:
    source = read_source(folder, RESOLUTIONS, folder / "cache")
    assert isinstance(source, Shapes)
    return source


def test_the_layout_of_score_denoise(tmp_path: Path, sphere: np.ndarray) -> None:
    for resolution in ("10000_poisson", "30000_poisson"):
        folder = tmp_path / "PUNet" / "pointclouds" / "train" / resolution
        folder.mkdir(parents=True)
        for name in ("a", "b"):
            np.savetxt(folder / f"{name}.xyz", 3 * sphere[:50] + 7)
    test = tmp_path / "PUNet" / "pointclouds" / "test" / "10000_poisson"
    test.mkdir(parents=True)
    np.savetxt(test / "c.xyz", sphere[:50])
    shapes = _read(tmp_path)
    train, held = shapes.split(("b",))
    assert {name: len(clouds) for name, clouds in train.clouds.items()} == {"a": 2}
    assert list(held.clouds) == ["b"]
    assert np.abs(shapes.clouds["a"][0]).max() <= 1 + 1e-9
    assert shapes.digest != train.digest
    assert (len(shapes), len(train)) == (4, 2)


def test_meshes_are_sampled_once(
    tmp_path: Path, sphere: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    mesh = TriangleMesh(5 * np.eye(3), [[0, 1, 2]])
    write_mesh(tmp_path / "flat.off", mesh)
    write_mesh(tmp_path / "flat2.ply", mesh)
    np.save(tmp_path / "ball.npy", sphere)
    shapes = _read(tmp_path)
    assert {name: [len(c) for c in clouds] for name, clouds in shapes.clouds.items()} == {
        "ball": [2000],
        "flat": [100, 200],
        "flat2": [100, 200],
    }
    assert len(list((tmp_path / "cache").iterdir())) == 2
    cloud = shapes.clouds["flat"][0]
    assert np.linalg.norm(cloud, axis=1).max() == pytest.approx(1)
    assert np.ptp(cloud.sum(1)) < 1e-9

    def never(*args: object, **kwargs: object) -> None:
        raise AssertionError("sampled again")

    monkeypatch.setattr("pdflow.geometry.sampling.sample_mesh", never)
    assert _read(tmp_path).digest == shapes.digest
    write_mesh(tmp_path / "flat.off", TriangleMesh(6 * np.eye(3), [[0, 1, 2]]))
    with pytest.raises(AssertionError, match="sampled again"):
        _read(tmp_path)


def test_the_layout_of_dmr(tmp_path: Path, sphere: np.ndarray) -> None:
    h5py = pytest.importorskip("h5py")
    rng = np.random.default_rng(0)
    (tmp_path / "dataset_train").mkdir()
    for name in ("10k", "20k"):
        with h5py.File(tmp_path / "dataset_train" / f"patches_{name}_1024.h5", "w") as file:
            patches = np.stack([rng.permutation(sphere[:100]) for _ in range(6)])
            file["train"], file["train_normal"] = patches, patches
            file["val"] = patches[:2]
    source = read_source(tmp_path, RESOLUTIONS, tmp_path / "cache")
    assert isinstance(source, ReadyPatches)
    train, held = source.split(("ignored",))
    assert (len(train), len(held)) == (12, 4)
    assert source.digest == train.digest
    (tmp_path / "dataset_train" / "patches_30k_1024.h5").write_bytes(b"no")
    with pytest.raises(PdflowError, match="not an HDF5"):
        read_source(tmp_path, RESOLUTIONS, tmp_path / "cache")


def test_ready_patches_start_at_their_middle(sphere: np.ndarray) -> None:
    rng = np.random.default_rng(0)
    flat = rng.uniform(-2, 2, (5, 80, 3)) * [1, 1, 0] + 9
    pool = ReadyPatches(flat, flat[:1]).pool(1, 64, torch.Generator())
    assert pool.surroundings.shape == (5, 80, 3)
    assert pool.surroundings.norm(dim=2).amax(1) == pytest.approx(torch.ones(5))
    distances = (pool.surroundings - pool.surroundings[:, :1]).norm(dim=2)
    assert (distances.diff(dim=1) >= 0).all()
    assert pool.surroundings[:, 0].norm(dim=1).max() < 0.3
    assert pool.sample(3, (0.01, 0.02), radius=4.0).noisy.shape == (3, 64, 3)
    with pytest.raises(PdflowError, match="Patches of 80 points are smaller"):
        ReadyPatches(flat, flat).pool(1, 81, torch.Generator())


def test_what_cannot_be_trained_on_is_refused(tmp_path: Path, sphere: np.ndarray) -> None:
    shapes = Shapes({"a": [sphere]})
    with pytest.raises(PdflowError, match=r"'c'.*--holdout"):
        shapes.split(("c",))
    with pytest.raises(PdflowError, match="All shapes are held out"):
        shapes.split(("a",))
    with pytest.raises(PdflowError, match="2000 points, fewer than the 4000 of a patch"):
        shapes.pool(1, 4000, torch.Generator())
    with pytest.raises(PdflowError, match="is not a folder"):
        _read(tmp_path / "nothing")
    with pytest.raises(PdflowError, match="nothing to train on"):
        _read(tmp_path)
    np.save(tmp_path / "bad.npy", np.where(sphere > 0.9, np.nan, sphere))
    with pytest.raises(PdflowError, match=r"bad.npy: .* are NaN or infinite"):
        _read(tmp_path)


def test_equal_points_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "dot.npy", np.full((500, 3), 7.0))
    with pytest.raises(PdflowError, match="Shape 'dot' has 500 equal points"):
        _read(tmp_path)
    patches = np.random.default_rng(0).random((3, 64, 3))
    patches[1] = 5
    source = ReadyPatches(patches, patches[:0])
    with pytest.raises(PdflowError, match="All points of patch 1 are equal"):
        source.pool(1, 64, torch.Generator())


def test_advice_names_a_command_that_has_the_option(tmp_path: Path, sphere: np.ndarray) -> None:
    np.save(tmp_path / "ball.npy", np.where(sphere > 0.99, np.nan, sphere))
    with pytest.raises(PdflowError, match="`pdflow convert --drop-nonfinite`"):
        _read(tmp_path)


def test_temporary_files_are_no_shapes(tmp_path: Path, sphere: np.ndarray) -> None:
    np.save(tmp_path / "ball.npy", sphere)
    np.save(tmp_path / ".ball.pdflow-abcdefgh.npy", sphere[:10])
    assert list(_read(tmp_path).clouds) == ["ball"]
