"""Tiny repositories with the layout, names and signatures of the rivals' real ones."""

from __future__ import annotations

import argparse
from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest
import torch

from pdflow.bench.rivals import RIVALS


@pytest.fixture
def downloads(tmp_path, monkeypatch) -> dict[str, Path]:
    """A tiny repository of every rival, named by its variable; each network halves coordinates."""
    makers = (_write_pd_lts, _write_straightpcf, _write_score_denoise)
    folders = {rival.name: tmp_path / rival.name for rival in RIVALS}
    for rival, make in zip(RIVALS, makers, strict=True):
        make(folders[rival.name])
        monkeypatch.setenv(rival.variable, str(folders[rival.name]))
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
