"""With the authors' weights, our network computes what theirs computes."""

from pathlib import Path

import numpy as np
import pytest
import torch

from pdflow.model import PDFlow
from pdflow.weights import load_model, read_tensors, save_model
from pdflow.weights.authors import import_authors_weights

pytestmark = pytest.mark.reference


def _imported(shared: Path, name: str) -> PDFlow:
    tensors, _ = read_tensors(shared / "reference" / f"pdflow_{name}.safetensors")
    return import_authors_weights(tensors)


@pytest.mark.parametrize("name", ["lcc", "fbm"])
@torch.no_grad()
def test_golden_latents_and_points(shared: Path, name: str) -> None:
    golden = np.load(shared / "reference" / "golden.npz")
    model = _imported(shared, name)
    noisy = torch.from_numpy(golden["noisy"])
    eps = torch.from_numpy(golden[f"{name}/eps"])
    code = model.encode(noisy, model.graph(noisy), eps).code
    denoised = model.denoise_patches(noisy, eps)
    assert (code - torch.from_numpy(golden[f"{name}/latent"])).abs().max() < 1e-4
    assert (denoised - torch.from_numpy(golden[f"{name}/denoised"])).abs().max() < 1e-4


@torch.no_grad()
def test_imported_weights_survive_save_and_load(shared: Path, tmp_path: Path) -> None:
    model = _imported(shared, "fbm")
    save_model(tmp_path / "fbm.safetensors", model, {"imported": "fbm"})
    loaded = load_model(tmp_path / "fbm.safetensors")
    patch = torch.from_numpy(np.load(shared / "reference" / "golden.npz")["noisy"][:1])
    assert loaded.config == model.config
    assert loaded.config.masked_dims == 6
    assert torch.equal(loaded.denoise_patches(patch), model.denoise_patches(patch))


@torch.no_grad()
def test_masking_nothing_returns_the_input_in_float32(shared: Path) -> None:
    model = _imported(shared, "fbm")
    model.filter.mask.fill_(1)  # type: ignore[operator, union-attr]
    patch = torch.from_numpy(np.load(shared / "reference" / "golden.npz")["noisy"])
    assert (model.denoise_patches(patch) - patch).abs().max() < 1e-5
