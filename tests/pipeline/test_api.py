"""What `denoise` takes and returns, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import pdflow
from pdflow.errors import PdflowError
from pdflow.model import PDFlow
from pdflow.pipeline.api import denoise
from pdflow.pipeline.denoise import Denoiser

Sphere = Callable[..., np.ndarray]


@pytest.mark.parametrize("kind", ["float64", "float32", "tensor"])
def test_the_same_kind_comes_back(model: PDFlow, kind: str, sphere: Sphere) -> None:
    noisy = sphere(500)
    given: Any = torch.from_numpy(noisy).float() if kind == "tensor" else noisy.astype(kind)
    clean = pdflow.denoise(given, model=model)
    assert type(clean) is type(given)
    assert clean.dtype == given.dtype
    assert clean.shape == given.shape


@pytest.mark.parametrize("dtype", [torch.int32, torch.bfloat16, torch.float16])
def test_tensors_of_any_numbers_are_taken(
    model: PDFlow, dtype: torch.dtype, sphere: Sphere
) -> None:
    given = torch.from_numpy(1000 * sphere(200)).to(dtype)
    clean = pdflow.denoise(given, model=model)
    assert clean.dtype == (dtype if dtype.is_floating_point else torch.float64)
    assert not torch.equal(clean.double(), given.double())
    assert (clean.double() != clean.double().round()).any()


@pytest.mark.parametrize("given", ["cloud.ply", [[1, 2, 3], [4, 5]], np.ones((99, 3)) * 1j])
def test_what_is_no_array_of_numbers_is_refused(model: PDFlow, given: Any) -> None:
    with pytest.raises(PdflowError, match=r"^[^\n]+ numbers: [^\n]+\.$"):
        denoise(given, model=model)


def test_numbers_may_be_of_numpy(model: PDFlow, sphere: Sphere) -> None:
    noisy = sphere(200)
    one = denoise(noisy, model=model, iterations=2, partitions=2, seed=3)
    options = {"iterations": np.int64(2), "partitions": np.int32(2), "seed": np.uint8(3)}
    assert np.array_equal(denoise(noisy, model=model, **options), one)


@pytest.mark.parametrize("count", [1, 2, 63])
def test_tiny_clouds_say_why_not(model: PDFlow, count: int, sphere: Sphere) -> None:
    with pytest.raises(PdflowError, match="at least 64"):
        denoise(sphere(count), model=model)


def test_too_many_points_are_refused(model: PDFlow, sphere: Sphere) -> None:
    with pytest.raises(PdflowError, match="at most 10000"):
        denoise(sphere(100), model=model, mode="resample", points=10001)


@pytest.mark.parametrize(
    "options",
    [
        {"mode": "blur"},
        {"outliers": "hide"},
        {"iterations": 0},
        {"iterations": "many"},
        {"partitions": -1},
        {"points": 5},
        {"overlap": 0.5},
        {"overlap": np.inf},
        {"overlap": "3"},
        {"radius": -1.0},
        {"radius": np.inf},
        {"seed": 1.5},
        {"mode": "resample", "points": 0},
        {"mode": "resample", "points": 2.5},
    ],
)
def test_bad_options_are_one_sentence(model: PDFlow, options: dict[str, Any]) -> None:
    with pytest.raises(PdflowError, match=r"^[^\n]+\.$"):
        Denoiser(model, **options)


def test_nonfinite_points_are_refused(model: PDFlow, sphere: Sphere) -> None:
    points = sphere(100)
    points[3] = np.nan
    with pytest.raises(PdflowError, match="NaN"):
        denoise(points, model=model)
