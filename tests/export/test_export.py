from __future__ import annotations

import json
from pathlib import Path
from zipfile import ZipFile

import pytest
import torch

from pdflow.errors import PdflowError
from pdflow.export import LARGEST_DIFFERENCE, example, export_model, metadata
from pdflow.export.formats import FORMATS, Format
from pdflow.export.network import PatchNetwork
from pdflow.model import PDFlow


def test_the_network_with_its_own_neighbours_is_the_network(small: PDFlow) -> None:
    patches, _ = example(PatchNetwork(small), batch=3)
    with torch.no_grad():
        found, expected = PatchNetwork(small)(patches), small.denoise_patches(patches)
    assert torch.allclose(found, expected, atol=1e-6)


def test_networks_with_edges_are_exported(small: PDFlow, tmp_path: Path) -> None:
    pytest.importorskip("onnxscript", reason="onnxscript is not installed")
    assert export_model(tmp_path / "net.onnx", small) < LARGEST_DIFFERENCE


def test_torch_runs_its_own_export_without_us(small: PDFlow, tmp_path: Path) -> None:
    path = tmp_path / "net.pt2"
    assert export_model(path, small) < LARGEST_DIFFERENCE
    patches, _ = example(PatchNetwork(small), batch=5)
    found = torch.export.load(path).module()(patches, None)
    with torch.no_grad():
        assert torch.allclose(found, small.denoise_patches(patches), atol=1e-5)
    with ZipFile(path) as file:
        [name] = [name for name in file.namelist() if name.endswith("pdflow.json")]
        assert json.loads(file.read(name)) == metadata(small)


def test_a_file_that_differs_is_not_kept(
    small: PDFlow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = Format(
        write=lambda program, path, metadata: Path(path).touch(),
        load=lambda path: lambda points, sigma: points + 1e-3,
    )
    monkeypatch.setitem(FORMATS, ".pt2", wrong)
    monkeypatch.setattr(PatchNetwork, "program", lambda self, points, sigma: None)
    with pytest.raises(PdflowError, match=r"would differ from the network by .*: report it"):
        export_model(tmp_path / "net.pt2", small)
    assert list(tmp_path.iterdir()) == []


def test_other_suffixes_are_refused(small: PDFlow, tmp_path: Path) -> None:
    with pytest.raises(PdflowError, match=r"suffix '\.h5': name a file with \.onnx or \.pt2"):
        export_model(tmp_path / "net.h5", small)
