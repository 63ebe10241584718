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


def test_channels_are_taken_out_by_their_share_of_noise(pdflow, weights, tmp_path):
    model, picture = weights(filter="fbm", masked_dims=4), tmp_path / "channels.pdf"
    words = ("latent", GEAR, "--clean", GEAR.with_name("gear.ply"), "-o", picture)
    done = pdflow(*words, "--model", model, "--json")
    assert done.code == 0, done.err
    channels = json.loads(done.out)
    assert sorted(each["channel"] for each in channels) == list(range(8))
    shares = [each["noise"] / each["clean"] for each in channels]
    assert shares == sorted(shares, reverse=True)
    kept = [each for each in channels if each["channel"] < 4]
    before = {each["channel"]: left for each, left in zip(channels[1:], channels, strict=False)}
    for each in kept[1:]:  # the filter keeps these channels, so CD does not change
        if each["channel"] in before:
            assert each["filtered"] == before[each["channel"]]["filtered"]
    assert channels[0]["masked"] != channels[-1]["masked"]
    assert picture.read_bytes().startswith(b"%PDF")


def test_channels_need_the_same_rows_and_no_other_options(pdflow, weights, tmp_path):
    model, clean = weights(filter="lcc"), tmp_path / "clean.xyz"
    clean.write_text("0 0 0\n1 0 0\n")
    words = ("latent", GEAR, "--clean", clean, "-o", tmp_path / "a.png", "--model", model)
    assert "10000 points and the clean one 2: give two clouds" in pdflow(*words).err
    assert "--row and --delta do not go with --clean" in pdflow(*words, "--row", "3").err
