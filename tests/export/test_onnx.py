"""The shipped network in ONNX Runtime, and the loop of docs/export.md around it.

One test, because it takes a while to make the file.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import pdflow
from pdflow import patches
from pdflow.export import LARGEST_DIFFERENCE, export_model, metadata
from pdflow.export.formats import FORMATS
from pdflow.model import PDFlow

ROOT = Path(__file__).resolve().parents[2]


def test_the_shipped_network_runs_without_torch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("onnxscript", reason="onnxscript is not installed")
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    model = pdflow.load_model("pdflow")
    monkeypatch.chdir(tmp_path)
    assert export_model("net.onnx", model) < LARGEST_DIFFERENCE
    check_names(runtime.InferenceSession("net.onnx"), model)
    for batch, count in ((1, 1024), (3, 200)):
        check_patches(model, batch, count)
    check_loop(model)


def check_names(session: Any, model: PDFlow) -> None:
    """The file says what it takes."""
    inputs = {each.name: each.shape for each in session.get_inputs()}
    assert inputs == {"points": ["batch", "points", 3], "sigma": ["batch"]}
    assert [each.name for each in session.get_outputs()] == ["clean"]
    told = session.get_modelmeta().custom_metadata_map
    assert told == metadata(model)
    assert (told["patch_points"], told["patch_radius"], told["centred"]) == ("1024", "4 4", "true")


def check_patches(model: PDFlow, batch: int, count: int) -> None:
    """Any number of patches and of points in them gives what torch gives."""
    flat = np.random.default_rng(1).normal(size=(batch, count, 3)) * [1.3, 1.3, 0.1]
    points, sigma = torch.from_numpy(flat).float(), torch.full((batch,), 0.1)
    with torch.inference_mode():
        expected = model.denoise_patches(points, sigma=sigma)
    found = FORMATS[".onnx"].load(Path("net.onnx"))(points, sigma)
    assert (found - expected).abs().max() < LARGEST_DIFFERENCE


def check_loop(model: PDFlow) -> None:
    """The loop of the guide, as it stands, does what the network does in one pass."""
    noisy = pdflow.read(ROOT / "examples" / "gear_noisy.ply").points[::4]
    np.savetxt("noisy.xyz", noisy)
    [block] = re.findall(r"```py\n(.+?)```", (ROOT / "docs/export.md").read_text(), re.S)
    names: dict[str, Any] = {}
    exec(compile(block, "export.md", "exec"), names)
    batch = patches.cut(model, noisy, noise=0.02)
    code = patches.filter_code(model, patches.encode(model, batch).code)
    expected = batch.stitch(patches.decode(model, code, batch))
    assert np.abs(names["clean"] - expected).max() < 1e-4
    body = block.split("\ndef denoise")[1].split("\n\n\n")[0]
    assert len(body.splitlines()) <= 40
