from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
import torch
from torch import Tensor

from pdflow.kernels.edge import edge_max_torch
from pdflow.kernels.graph import nearest_torch


@cache
def has_hopper() -> bool:
    return torch.cuda.is_available() and torch.cuda.get_device_capability()[0] == 9


@pytest.fixture(scope="module")
def code() -> dict[str, str]:
    """PTX of the kernels by their names."""
    pytest.importorskip("triton", reason="Triton is not installed")
    script = Path(__file__).with_name("compile_for_hopper.py")
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    run = subprocess.run(
        [sys.executable, script], env=environment, capture_output=True, text=True, check=True
    )
    kernels: dict[str, str] = json.loads(run.stdout)
    return kernels


@pytest.mark.parametrize("name", ["forward", "inference", "features"])
def test_features_move_straight_from_memory_to_products(code: dict[str, str], name: str) -> None:
    assert "wgmma.mma_async" in code[name]
    assert "ld.shared" not in code[name]
    assert "ldmatrix" not in code[name]


def test_atomics_add_eight_channels_at_once(code: dict[str, str]) -> None:
    assert "add.noftz.v8.bf16" in code["features"]


def test_the_kernel_of_the_weights_multiplies_on_matrix_units(code: dict[str, str]) -> None:
    assert "wgmma.mma_async" in code["weights"]


def relative_error(found: Tensor, expected: Tensor) -> float:
    return ((found - expected).norm() / expected.norm()).item()


@pytest.mark.skipif(not has_hopper(), reason="needs a Hopper GPU")
@pytest.mark.parametrize(
    ("groups", "batch", "points", "k"),
    [
        pytest.param(1, 1, 100, 5, id="odd-points"),
        pytest.param(2, 3, 64, 16, id="groups-and-patches"),
        pytest.param(1, 2, 70, 1, id="one-neighbour"),
        pytest.param(1, 1, 130, 40, id="more-than-32-neighbours"),
    ],
)
def test_values_and_gradients_equal_the_twin(groups: int, batch: int, points: int, k: int) -> None:
    from pdflow.kernels import edge_hopper

    generator = torch.Generator().manual_seed(points)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator).cuda()

    cloud = torch.randn(batch, points, 3, generator=generator)
    graph = nearest_torch(cloud, cloud, k + 1)[..., :k].cuda()
    centre, neighbour, dout = (normal(groups, batch, points, 64).bfloat16() for _ in range(3))
    # Weights of one digit: the twin rounds like the kernel, and no maximum is a near tie.
    weight = normal(groups, 64, 64).sign()
    bias = normal(groups, 64)
    out, choice, active = edge_hopper.forward(centre, neighbour, graph, weight, bias)
    found = edge_hopper.backward(centre, neighbour, graph, weight, choice, active, dout)
    leaves = [x.double().requires_grad_() for x in (centre, neighbour, weight, bias)]
    expected = edge_max_torch(leaves[0], leaves[1], graph, leaves[2], leaves[3])
    assert relative_error(out, expected) < 1e-2
    gradients = torch.autograd.grad(expected, leaves, dout.double())
    errors = [relative_error(*pair) for pair in zip(found, gradients, strict=True)]
    assert max(errors) < 0.1
    assert torch.equal(edge_hopper.forward(centre, neighbour, graph, weight, bias, False)[0], out)
