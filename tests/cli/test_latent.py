"""`pdflow latent`: four codes, one picture."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from pdflow.config import FlowConfig
from pdflow.model import PDFlow
from pdflow.weights import save_model

GEAR = Path(__file__).parents[2] / "examples" / "gear_noisy.ply"


@pytest.fixture
def weights(tmp_path):
    def write(**settings) -> Path:
        torch.manual_seed(0)
        config = FlowConfig(
            edge_neighbours=(8, 0), augment_dims=5, hidden=8, patch_points=64, **settings
        )
        path = tmp_path / "model.safetensors"
        save_model(path, PDFlow(config).eval(), {})
        return path

    return write


def test_four_patches_and_their_picture(pdflow, weights, tmp_path):
    model = weights(filter="fbm", masked_dims=4)
    picture = tmp_path / "codes.png"
    done = pdflow("latent", GEAR, "-o", picture, "--model", model, "--row", "7", "--json")
    assert done.code == 0, done.err
    whole, filtered, kept, masked = json.loads(done.out)
    assert [whole["code"], filtered["code"]] == ["[z_p, z_n]", "[z_p, z_c]"]
    assert whole["moved"] < 1e-4  # the flow is invertible
    assert filtered["moved"] > 0.01
    assert kept["moved"] > 0.01
    assert masked["moved"] > 0.01
    assert 0 <= kept["common"] <= 1
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_without_an_offset_nothing_moves(pdflow, weights, tmp_path):
    model = weights(filter="fbm", masked_dims=4)
    words = ("-o", tmp_path / "codes.png", "--model", model, "--delta", "0", "--json")
    results = json.loads(pdflow("latent", GEAR, *words).out)
    assert results[2]["moved"] == results[3]["moved"] == 0


def test_a_filter_that_mixes_all_channels_is_refused(pdflow, weights, tmp_path):
    model = weights(filter="lcc")
    done = pdflow("latent", GEAR, "-o", tmp_path / "codes.png", "--model", model)
    assert done.code == 2
    assert f"The filter of {model} is 'lcc', which does not split a code" in done.err
    assert not (tmp_path / "codes.png").exists()


def test_a_shipped_model_with_a_mask_is_found(pdflow, tmp_path):
    done = pdflow("latent", GEAR, "-o", tmp_path / "codes.png", "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)[0]["moved"] < 1e-4


def test_a_row_must_be_there(pdflow, weights, tmp_path):
    model = weights(filter="fbm", masked_dims=4)
    words = ("-o", tmp_path / "codes.png", "--model", model, "--row", "99999")
    assert "There is no row 99999: give 0 to 9999." in pdflow("latent", GEAR, *words).err
