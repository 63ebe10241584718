from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pdflow.config import FlowConfig
from pdflow.model import PDFlow
from pdflow.weights import save_model


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.safetensors"
    config = FlowConfig((0,), augment_dims=0, hidden=8, masked_dims=1, patch_points=32)
    save_model(path, PDFlow(config), {})
    return path


def test_a_network_is_exported(pdflow: Callable[..., Any], weights: Path, tmp_path: Path) -> None:
    done = pdflow("export", "-o", tmp_path / "net.pt2", "--model", weights, "--json")
    assert done.code == 0, done.err
    told = json.loads(done.out)
    assert told["bytes"] == (tmp_path / "net.pt2").stat().st_size
    assert told["difference"] < 1e-4
    assert done.err == ""


def test_a_missing_extra_is_named_first(
    pdflow: Callable[..., Any], weights: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    done = pdflow("export", "-o", tmp_path / "net.onnx", "--model", weights)
    assert done.code == 2
    assert "needs an extra: pip install" in done.err
    assert "[onnx]'" in done.err
