"""Rivals: tiny repositories with the layout, names and signatures of the real ones."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest
import torch

from pdflow.bench.cases import Case, Scale
from pdflow.bench.methods import choose_methods
from pdflow.bench.rivals import RIVALS, named_rival
from pdflow.bench.rivals.foreign import cuda_means, importing_from, loading_tensors
from pdflow.bench.rivals.patchwise import Patching, denoise_by_patches, most_central
from pdflow.bench.rivals.stand_ins import MessagePassing, knn_points
from pdflow.errors import PdflowError

NAMES = tuple(rival.name for rival in RIVALS)
VARIABLES = {rival.name: rival.variable for rival in RIVALS}


@pytest.fixture
def downloads(tmp_path, monkeypatch) -> dict[str, Path]:
    """A tiny repository of every rival, named by its variable; each network halves coordinates."""
    makers = (_write_pd_lts, _write_straightpcf, _write_score_denoise)
    folders = {name: tmp_path / name for name in NAMES}
    for name, make in zip(NAMES, makers, strict=True):
        make(folders[name])
        monkeypatch.setenv(VARIABLES[name], str(folders[name]))
    return folders


def _write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text))


def _save(path: Path, stored: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save(stored, path)


def _write_pd_lts(folder: Path) -> None:
    _write(
        folder,
        {
            "modules/utils/distribution.py": "class GaussianDistribution:\n    pass\n",
            "models/layers/__init__.py": "from .half import Half\n",
            "models/layers/half.py": """
                import torch

                class Half(torch.nn.Module):
                    def __init__(self):
                        super().__init__()
                        self.factor = torch.nn.Parameter(torch.ones(()))
            """,
            "models/model_light/deflow.py": """
                from enum import Enum

                from kaolin.metrics.pointcloud import chamfer_distance
                from metric.loss import ConsistencyLoss, MaskLoss
                from pytorch3d.ops import knn_gather, knn_points
                from modules.utils.distribution import GaussianDistribution
                import models.layers as layers

                class Disentanglement(Enum):
                    FBM = 1

                class DenoiseFlow(layers.Half):
                    def forward(self, x, y=None):
                        _, idx, _ = knn_points(x, x, K=1, return_nn=False, return_sorted=False)
                        nearest = knn_gather(x, idx)[:, :, 0]
                        return self.factor * nearest, 0, None
            """,
            "models/model_light/denoise.py": """
                import os
                import sys
                import torch
                from pytorch3d.ops import knn_points
                from sklearn.cluster import KMeans
                from tqdm import tqdm

                sys.path.append(os.getcwd())

                from models.model_light.deflow import DenoiseFlow
                from dataset.scoredenoise.transforms import NormalizeUnitSphere
                from modules.utils.score_utils import farthest_point_sampling, remove_outliers

                def get_denoise_net(ckpt_path):
                    network = DenoiseFlow()
                    network.load_state_dict(torch.load(ckpt_path))
                    network.eval()
                    return network
            """,
        },
    )
    weights = folder / "product/ckpt/Denoiseflow-light-FBM.ckpt"
    _save(weights, {"factor": torch.tensor(0.5)})


def _write_straightpcf(folder: Path) -> None:
    _write(
        folder,
        {
            "models/utils.py": """
                import pytorch3d.loss
                import pytorch3d.structures
                from pytorch3d.loss.point_mesh_distance import point_face_distance
                from torch_cluster import fps
            """,
            "models/feature.py": """
                import torch
                import pytorch3d.ops
                from .utils import *
                from torch_geometric.nn import MessagePassing
                from torch_geometric.nn.inits import reset
                from torch_geometric.utils import remove_self_loops

                class Nearest(MessagePassing):
                    def __init__(self):
                        super().__init__(aggr='max')
                        self.factor = torch.nn.Parameter(torch.ones(()))
                        reset(self)

                    def forward(self, x):
                        flat = x.reshape(-1, 3)
                        rows = torch.arange(len(flat)).cuda()
                        edges, _ = remove_self_loops(torch.stack([rows, rows.roll(1)]))
                        return self.propagate(edges, x=flat).reshape(x.shape)

                    def message(self, x_i, x_j):
                        return -self.factor * x_i
            """,
            "models/straightpcf.py": """
                import torch
                from pytorch3d.ops import knn_points
                from pytorch3d.loss.chamfer import chamfer_distance
                from torch_geometric.utils import get_laplacian, to_dense_adj
                from models.feature import Nearest

                class StraightPCF(torch.nn.Module):
                    def __init__(self, straightpcf=None, args=None):
                        super().__init__()
                        coupled = torch.load(args.cvm_ckpt, map_location=args.device)
                        assert coupled['args'].num_modules == 1
                        self.velocity_nets = torch.nn.ModuleList([Nearest().to(args.device)])

                    def denoise_langevin_dynamics(self, pcl_noisy):
                        return pcl_noisy + self.velocity_nets[0](pcl_noisy), None
            """,
        },
    )
    state = {"velocity_nets.0.factor": torch.tensor(0.5)}
    settings = argparse.Namespace(device="cuda", cvm_ckpt="./logs/elsewhere.pt", tot_its=3)
    stored = {"args": settings, "state_dict": state}
    _save(folder / "pretrained_straightpcf/ckpt_straightpcf.pt", stored)
    coupled = {"args": argparse.Namespace(num_modules=1)}
    _save(folder / "pretrained_cvm/ckpt_cvm.pt", coupled)


def _write_score_denoise(folder: Path) -> None:
    _write(
        folder,
        {
            "models/utils.py": "from torch_cluster import fps\n",
            "models/denoise.py": """
                import torch
                import pytorch3d.ops
                from .utils import *

                class DenoiseNet(torch.nn.Module):
                    def __init__(self, args):
                        super().__init__()
                        self.factor = torch.nn.Parameter(torch.ones(()))

                    def denoise_langevin_dynamics(
                        self, pcl_noisy, step_size, denoise_knn=4, step_decay=0.95, num_steps=30
                    ):
                        _, idx, near = pytorch3d.ops.knn_points(
                            pcl_noisy, pcl_noisy, K=denoise_knn, return_nn=True
                        )
                        assert idx.shape[2] == 4 and num_steps == 30 and step_size == 0.2
                        return self.factor * near[:, :, 0], []
            """,
        },
    )
    settings = argparse.Namespace(ld_step_size=0.2)
    _save(
        folder / "pretrained/ckpt.pt",
        {"args": settings, "state_dict": {"factor": torch.tensor(0.5)}, "others": None},
    )


@pytest.fixture
def cloud() -> np.ndarray:
    """Points of a ball that its unit sphere leaves as they are, 1500 of them."""
    rng = np.random.default_rng(0)
    inside = rng.normal(size=(1494, 3))
    inside *= 0.9 / np.linalg.norm(inside, axis=1).max()
    return np.concatenate([inside, np.eye(3), -np.eye(3)])


@pytest.mark.parametrize("name", NAMES)
def test_a_rival_runs_from_its_own_folder(name, downloads, cloud):
    (method,) = choose_methods([f"{name}:1"])
    modules, path = set(sys.modules), list(sys.path)
    network = method.load()
    done = method.denoise(network, Case(cloud, cloud))
    assert done.points.shape == cloud.shape
    assert done.remark == "1x1"
    assert path == sys.path
    foreign = {"models", "pytorch3d", "torch_geometric", "torch_cluster", "metric", "kaolin"}
    assert not {each for each in set(sys.modules) - modules if each.partition(".")[0] in foreign}
    assert not list(downloads[name].rglob("__pycache__"))
    if name == "score-denoise":  # in the cloud's frame, and sampled again
        expected = np.unique(np.linalg.norm(cloud / 2, axis=1).round(5))
        assert np.isin(np.linalg.norm(done.points, axis=1).round(5), expected).mean() > 0.99
    else:  # towards the seed of the patch in which a point is most central
        moves = np.linalg.norm(done.points - cloud, axis=1)
        assert 0 <= moves.min() < 1e-6
        assert moves.max() < 1


def test_each_rival_is_named_if_its_files_are_missing(tmp_path, monkeypatch):
    for rival in RIVALS:
        monkeypatch.delenv(rival.variable, raising=False)
        (method,) = choose_methods([rival.name])
        assert method.missing == f"set {rival.variable} to a clone of {rival.source}"
        monkeypatch.setenv(rival.variable, str(tmp_path))
        (method,) = choose_methods([rival.name])
        assert method.missing is not None
        assert method.missing.startswith(f"there is no file {tmp_path / rival.code}; ")


def test_other_weights_are_another_result(downloads, tmp_path, monkeypatch):
    first = named_rival("pd-lts-light")
    other = tmp_path / "mine-FBM.ckpt"
    _save(other, {"factor": torch.tensor(1.0)})
    monkeypatch.setenv("PDFLOW_PD_LTS_WEIGHTS", str(other))
    second = named_rival("pd-lts-light")
    assert first.digest != second.digest
    assert named_rival("pd-lts-light:2").digest != second.digest
    patches = torch.rand(1, 8, 3)
    assert torch.equal(second.load()(patches), patches)


def test_one_sentence_if_their_code_or_weights_fail(downloads):
    (downloads["straightpcf"] / "models/feature.py").write_text("import nowhere\n")
    with pytest.raises(PdflowError, match=r"^straightpcf: load failed \(ModuleNotFoundError: .*\)"):
        named_rival("straightpcf").load()

    class Code:
        def __reduce__(self):
            return print, ("run",)

    _save(downloads["score-denoise"] / "pretrained/ckpt.pt", Code())
    with pytest.raises(PdflowError, match="score-denoise: load failed") as caught:
        named_rival("score-denoise").load()
    assert "\n" not in str(caught.value)


def test_a_rival_that_fails_does_not_stop_the_others(bench, score_data, tmp_path, downloads):
    broken = downloads["pd-lts-light"] / "models/model_light/deflow.py"
    broken.write_text("raise RuntimeError('out of memory')\n")
    words = ("puset", "--data", score_data, "-o", tmp_path / "out", "--points", "10000")
    chosen = ("--levels", "0.02", "--shapes", "egg", "--methods", "pd-lts-light,straightpcf,noisy")
    done = bench(*words, *chosen)
    assert done.code == 2
    assert "pd-lts-light: load failed (RuntimeError: out of memory)" in done.err
    assert "| straightpcf (1 shape, not the 20 published ones) |" in done.out
    assert "| noisy (1 shape," in done.out


def test_noise_decides_on_passes_unless_they_are_given():
    levels = (0.01, 0.02, 0.03)
    found = {rival.name: [rival.passes(level) for level in levels] for rival in RIVALS}
    assert found == {
        "pd-lts-light": [1, 1, 1],
        "straightpcf": [1, 2, 3],
        "score-denoise": [1, 1, 2],
    }
    assert named_rival("straightpcf:x") is None
    assert named_rival("straightpcf:0") is None
    assert named_rival("mine") is None


def test_passes_follow_the_estimated_noise(downloads, cloud, monkeypatch):
    method = named_rival("straightpcf")
    network = method.load()
    for noise, remark in ((0.01, "1x1"), (0.03, "3x1")):
        monkeypatch.setattr(Scale, "of", staticmethod(lambda _, noise=noise: Scale(noise, 0.05)))
        assert method.denoise(network, Case(cloud, cloud)).remark == remark


def test_points_come_from_the_patch_in_which_they_are_most_central():
    cloud = np.zeros((4, 3))
    rows = np.array([[0, 1, 2], [2, 1, 0]])
    sq_distances = np.array([[0.0, 0.1, 1.0], [0.0, 0.3, 2.0]])
    moved = np.arange(18.0).reshape(2, 3, 3)
    found = most_central(cloud, rows, sq_distances, moved)
    assert np.array_equal(found[:3], [moved[0, 0], moved[0, 1], moved[1, 0]])
    assert not found[3].any()


def test_a_network_that_does_nothing_changes_nothing(cloud):
    for centred in (True, False):
        patching = Patching(100, overlap=3, batch=7, centred=centred)
        done = denoise_by_patches(5 + 3 * cloud, lambda patches: patches, patching, passes=2)
        np.testing.assert_allclose(done, 5 + 3 * cloud, atol=1e-6)
    few = denoise_by_patches(cloud[:20], lambda patches: patches, Patching(100, 3, 7))
    np.testing.assert_allclose(few, cloud[:20], atol=1e-6)


def test_neighbours_are_exact_and_squared():
    torch.manual_seed(0)
    points, queries = 100 + torch.rand(2, 50, 3), 100 + torch.rand(2, 9, 3)
    found = knn_points(queries, points, K=5, return_nn=True)
    exact = ((queries[:, :, None].double() - points[:, None].double()) ** 2).sum(-1).sort(-1)
    torch.testing.assert_close(found.dists.double(), exact.values[..., :5], atol=1e-5, rtol=1e-5)
    assert torch.equal(found.idx, exact.indices[..., :5])
    assert torch.equal(found.knn[1, 3, 2], points[1, found.idx[1, 3, 2]])


def test_each_node_keeps_its_largest_message():
    class Difference(MessagePassing):
        def message(self, x_i, x_j):
            return x_j - x_i

    nodes = torch.tensor([[0.0], [5.0], [1.0]])
    edges = torch.tensor([[0, 1, 2], [2, 2, 0]])  # 0 -> 2, 1 -> 2, 2 -> 0
    assert Difference().propagate(edges, x=nodes).tolist() == [[1.0], [0.0], [4.0]]
    with pytest.raises(NotImplementedError):
        MessagePassing("mean")


def test_stand_ins_are_gone_afterwards(tmp_path):
    load, cuda = torch.load, torch.Tensor.cuda
    own = type(sys)("models")
    sys.modules["models"] = own
    (tmp_path / "models.py").write_text("import pytorch3d.ops\nhere = 1\n")
    try:
        with importing_from(tmp_path), loading_tensors(), cuda_means("cpu"):
            import models

            assert models.here == 1
            assert torch.ones(1).cuda().device.type == "cpu"
        assert sys.modules["models"] is own
    finally:
        del sys.modules["models"]
    assert "pytorch3d" not in sys.modules
    assert torch.load is load
    assert torch.Tensor.cuda is cuda
