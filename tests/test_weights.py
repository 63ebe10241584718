"""Weight files carry their config; damaged or foreign ones are refused in one sentence."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from pdflow.authors import import_authors_weights
from pdflow.errors import PdflowError
from pdflow.model import FlowConfig, PDFlow
from pdflow.weights import load_model, read_provenance, save_model

TINY = FlowConfig(edge_neighbours=(4, 0), augment_dims=3, hidden=8, masked_dims=2, patch_points=12)


def test_model_config_and_provenance_come_back(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = PDFlow(TINY)
    model.train().encode(torch.randn(2, 12, 3), model.graph(torch.randn(2, 12, 3)))
    save_model(tmp_path / "m.safetensors", model.eval(), {"seed": 7})
    loaded = load_model(tmp_path / "m.safetensors")
    patch = torch.randn(1, 12, 3)
    assert loaded.config == TINY
    assert not loaded.training
    assert torch.equal(loaded.denoise_patches(patch), model.denoise_patches(patch))
    assert read_provenance(tmp_path / "m.safetensors") == {"seed": 7}


def test_missing_file_names_what_is_shipped(tmp_path: Path) -> None:
    with pytest.raises(PdflowError, match="give a file or a shipped name"):
        load_model(tmp_path / "no.safetensors")


def test_foreign_files_are_refused(tmp_path: Path) -> None:
    garbage = tmp_path / "garbage.safetensors"
    garbage.write_bytes(b"\x80\x04pickle or anything else")
    with pytest.raises(PdflowError, match="not a safetensors file"):
        load_model(garbage)
    plain = tmp_path / "plain.safetensors"
    save_file({"a": torch.zeros(2)}, plain)
    with pytest.raises(PdflowError, match="import-weights"):
        load_model(plain)
    with pytest.raises(PdflowError, match="not the authors' weights"):
        import_authors_weights({"a": torch.zeros(2)})


@pytest.mark.parametrize("config", [{"filter": "median"}, {"colour": 3}, {"hidden": 9}])
def test_config_that_does_not_fit_is_refused(tmp_path: Path, config: dict[str, object]) -> None:
    path = tmp_path / "bad.safetensors"
    save_file(PDFlow(TINY).state_dict(), path, {"config": json.dumps(config)})
    with pytest.raises(PdflowError):
        load_model(path)
