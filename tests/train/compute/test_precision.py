from __future__ import annotations

import pytest
import torch

from pdflow.kernels import sums_repeat
from pdflow.train.compute.precision import PRECISIONS, matmul_precision


@pytest.mark.parametrize("name", PRECISIONS)
def test_a_precision_holds_within_its_block(name: str) -> None:
    before = torch.get_float32_matmul_precision()
    with matmul_precision(name):
        assert torch.get_float32_matmul_precision() == PRECISIONS[name]
        assert sums_repeat() == (name != "bf16-fast")
    assert torch.get_float32_matmul_precision() == before
    assert sums_repeat()
