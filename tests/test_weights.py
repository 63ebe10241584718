"""Weight files carry their config; damaged or foreign ones are refused in one sentence."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from pdflow.config import FlowConfig, InferenceConfig
from pdflow.errors import PdflowError
from pdflow.model import PDFlow
from pdflow.train.recipe import load_recipe
from pdflow.weights import (
    load_model,
    read_provenance,
    read_tensors,
    released_models,
    save_model,
)
from pdflow.weights.authors import import_authors_weights

TINY = FlowConfig(edge_neighbours=(4, 0), augment_dims=3, hidden=8, masked_dims=2, patch_points=12)


def test_model_config_and_provenance_come_back(tmp_path: Path) -> None:
    torch.manual_seed(0)
    inference = InferenceConfig(patch_radius=(4.0, 4.0), pass_thresholds=())
    model = PDFlow(TINY, inference)
    model.train().encode(torch.randn(2, 12, 3), model.graph(torch.randn(2, 12, 3)))
    save_model(tmp_path / "m.safetensors", model.eval(), {"seed": 7})
    loaded = load_model(tmp_path / "m.safetensors")
    patch = torch.randn(1, 12, 3)
    assert loaded.config == TINY
    assert loaded.inference == inference
    assert not loaded.training
    assert torch.equal(loaded.denoise_patches(patch), model.denoise_patches(patch))
    assert read_provenance(tmp_path / "m.safetensors") == {"seed": 7}


def test_missing_file_names_what_is_shipped(tmp_path: Path) -> None:
    with pytest.raises(PdflowError, match="give a file or a shipped name"):
        load_model(tmp_path / "no.safetensors")


def test_a_long_reason_is_shortened(tmp_path: Path) -> None:
    """safetensors quotes the header; a mutant of the fuzzer made that a page of text."""
    header = json.dumps({"__metadata__": {}, "a": {"dtype": "[ " * 2000}}).encode()
    path = tmp_path / "long.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header)
    with pytest.raises(PdflowError, match="is not a safetensors file") as refused:
        load_model(path)
    assert len(str(refused.value)) < 400 + len(str(path))


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


@pytest.mark.parametrize(
    ("config", "inference", "message"),
    [
        ({"filter": "median"}, {}, "filter is 'median'"),
        ({"hidden": 9}, {}, "its tensors do not fit its config"),
        ({"colour": 3}, {}, "FlowConfig has no setting 'colour'"),
        ({"colour": 3}, None, "FlowConfig has no setting 'colour'"),
        ({"centred": True}, {}, "FlowConfig has no setting 'centred'"),
        ({}, {"told_noise": [1, 1, 1]}, "InferenceConfig has no setting 'told_noise'"),
        ({"part_noise": [3, 1]}, None, "partition_thresholds is"),
        ({"augment_steps": 10**9}, {}, "augment_steps is 1000000000; give a whole number up to"),
        ({"condition_layers": 10**9}, {}, "condition_layers is 1000000000"),
        ({"hidden": 64.0}, {}, "hidden is 64.0; give a whole number"),
        ({"edge_neighbours": [4, 1.5]}, {}, "edge_neighbours is 1.5"),
        ({"patch_points": 9000, "condition_neighbours": 9000}, {}, "K is 9000"),
        ({"augment_steps": 60_000}, {}, "too few for 60008 layers"),
        ({"condition": "graph", "condition_layers": 60_000}, {}, "too few for 60011 layers"),
        ({"edge_neighbours": [0] * 60_000}, {}, "too few for 60003 layers"),
        ({"edge_neighbours": [0], "augment_steps": 1, "hidden": 60_000}, {}, "far larger"),
        ({"edge_neighbours": [0], "augment_steps": 1, "augment_dims": 60_000}, {}, "far larger"),
        ({"edge_neighbours": [0], "augment_steps": 1, "augment_hidden": 60_000}, {}, "far larger"),
        ({"clamp": float("inf")}, {}, "clamp is inf"),
        ({}, {"patch_radius": [1.0, float("inf")]}, "patch_radius is"),
        ([1], {}, "FlowConfig is damaged"),
        ([1], None, "FlowConfig is damaged"),
        ({}, "text", "InferenceConfig is damaged"),
    ],
)
def test_configs_that_do_not_fit_are_refused_in_one_sentence(
    tmp_path: Path,
    config: dict[str, object],
    inference: dict[str, object] | None,
    message: str,
) -> None:
    path = tmp_path / "bad.safetensors"
    header = {"config": json.dumps(config)}
    if inference is not None:
        header["inference"] = json.dumps(inference)
    save_file(PDFlow(TINY).state_dict(), path, header)
    with pytest.raises(PdflowError, match=message) as refused:
        load_model(path)
    assert str(refused.value).startswith(str(path))
    assert "\n" not in str(refused.value)


def test_files_of_the_first_layout_load(tmp_path: Path) -> None:
    """All settings were in one header, those of inference under other names."""
    path = tmp_path / "old.safetensors"
    config = asdict(TINY) | {
        "patch_radius": [2.0, 4.0],
        "centred": True,
        "told_noise": [0.8, 0.5, 0.3],
        "pass_noise": [0.04],
        "part_noise": [0.1, 0.2],
    }
    del config["noise_unit"]
    save_file(PDFlow(TINY).state_dict(), path, {"config": json.dumps(config)})
    loaded = load_model(path)
    assert loaded.config == replace(TINY, noise_unit=4.0)
    assert loaded.inference == InferenceConfig(
        patch_radius=(2.0, 4.0),
        centred=True,
        conditioning_scales=(0.8, 0.5, 0.3),
        pass_thresholds=(0.04,),
        partition_thresholds=(0.1, 0.2),
    )


@pytest.mark.parametrize("name", released_models())
def test_shipped_models_are_what_their_recipes_make(name: str) -> None:
    loaded, recipe = load_model(name), load_recipe(name)
    assert loaded.config == recipe.model
    assert loaded.inference == recipe.inference


def test_a_file_of_pytorch_gets_a_command_that_converts_it(tmp_path: Path) -> None:
    tensors = {"weight": torch.arange(4.0)}
    for name, content in {"plain.pt": tensors, "nested.ckpt": {"state_dict": tensors}}.items():
        path = tmp_path / name
        torch.save(content, path)
        with pytest.raises(PdflowError, match="may run code: convert it with") as caught:
            load_model(path)
        command = str(caught.value).split("`")[1]
        words = shlex.split(command)
        subprocess.run([sys.executable, *words[1:]], check=True)
        converted = read_tensors(path.with_suffix(".safetensors"))[0]
        assert torch.equal(converted["weight"], tensors["weight"])
