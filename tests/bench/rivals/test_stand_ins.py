"""Stand-ins for the CUDA packages that rivals import."""

from __future__ import annotations

import sys

import pytest
import torch

from pdflow.bench.rivals.foreign import cuda_means, importing_from, loading_tensors
from pdflow.bench.rivals.stand_ins import MessagePassing, knn_points


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
