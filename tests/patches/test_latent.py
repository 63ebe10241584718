from __future__ import annotations

import numpy as np
import pytest
import torch

from pdflow import patches
from pdflow.backends import make_backend
from pdflow.errors import PdflowError
from pdflow.geometry.neighbors import NeighborSearch
from pdflow.model import PDFlow
from pdflow.noise.estimate import estimate_noise
from pdflow.pipeline.passes import Pass, Passes
from pdflow.pipeline.patching import Cutting
from pdflow.pipeline.plan import Plan


def test_the_steps_make_what_a_pass_makes(model: PDFlow, plane: np.ndarray) -> None:
    batch = patches.cut(model, plane)
    code = patches.filter_code(model, patches.encode(model, batch).code)
    clean = batch.stitch(patches.decode(model, code, batch))
    cutting = Cutting(model.config.patch_points, 3.0)
    passes = Passes(model, make_backend(model), cutting, None, "points", may_stop=False)
    search = NeighborSearch(plane)
    passed = Pass(passes, search, estimate_noise(search), Plan(1, 1), 0).moved().points
    assert np.abs(clean - passed).max() < 1e-4


def test_a_code_holds_the_whole_patch(model: PDFlow, plane: np.ndarray) -> None:
    batch = patches.cut(model, plane, seeds=[0])
    encoding = patches.encode(model, batch)
    assert encoding.code.shape == (1, 1024, model.config.channels)
    assert not encoding.code.requires_grad
    assert torch.allclose(patches.decode(model, encoding.code, batch), batch.points, atol=1e-4)


def test_a_point_off_the_surface_is_unlikely(model: PDFlow, plane: np.ndarray) -> None:
    beside, off = np.argsort(np.linalg.norm(plane[:, :2] - 0.5, axis=1))[:2]
    plane[off, 2] += 0.1
    # Three times the noise, as where outliers are sought, so that they do not pass for noise.
    batch = patches.cut(model, plane, seeds=[beside], noise=0.03)
    likelihood = patches.log_likelihood(model, batch)
    assert likelihood.shape == (1, 1024)
    assert batch.rows[0, likelihood[0].argmin()] == off


def test_a_seed_draws_the_same_code_again(small: PDFlow) -> None:
    batch = patches.given(small, 0.3 * torch.rand(2, 64, 3))
    one, two, other = (patches.encode(small, batch, seed).code for seed in (1, 1, 2))
    assert torch.equal(one, two)
    assert not torch.equal(one, other)


def test_float64_is_exact(small: PDFlow) -> None:
    points = 0.3 * torch.rand(2, 64, 3, dtype=torch.float64)
    rough = patches.log_likelihood(small, patches.given(small, points))
    exact = small.double()
    batch = patches.given(exact, points)
    assert batch.points.dtype == torch.float64
    encoding = patches.encode(exact, batch)
    assert torch.allclose(encoding.log_likelihood(), rough.double(), atol=1e-3)
    assert (patches.decode(exact, encoding.code, batch) - points).abs().max() < 1e-9


def test_mixed_types_are_refused_in_one_sentence(small: PDFlow) -> None:
    with pytest.raises(PdflowError, match=r"^Patches are float64 and this network is float32: "):
        small.denoise_patches(torch.rand(2, 64, 3, dtype=torch.float64))
