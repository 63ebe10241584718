"""What `denoise` takes and returns, and what it refuses."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from types import SimpleNamespace
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


def test_what_was_asked_for_comes_beside_an_array(model: PDFlow, sphere: Sphere) -> None:
    noisy = np.concatenate([sphere(500), [[9.0, 9.0, 9.0]]]).astype(np.float32)
    clean, columns = denoise(noisy, model=model, outliers="mark", displacement=True)
    assert clean.dtype == np.float32
    assert np.flatnonzero(columns["outlier"]).tolist()[-1] == 500
    assert noisy + columns["displacement"] == pytest.approx(clean, abs=1e-6)
    again, same, report = denoise(
        torch.from_numpy(noisy), model=model, outliers="mark", return_report=True
    )
    assert torch.equal(again, torch.from_numpy(clean))
    assert list(same) == ["outlier"]
    assert int(same["outlier"].sum()) == report.outliers


def test_the_other_columns_follow_removed_and_resampled_points(
    model: PDFlow, sphere: Sphere
) -> None:
    noisy = np.concatenate([[[9.0, 9.0, 9.0]], sphere(300)])
    rows = np.column_stack([noisy, np.arange(301)])
    clean = denoise(rows, model=model, outliers="remove")
    assert clean.shape[1] == 4
    assert 0 not in clean[:, 3]
    assert np.abs(clean[:, :3] - noisy[clean[:, 3].astype(int)]).max() < 0.4
    fewer = denoise(rows, model=model, mode="resample", points=100)
    assert np.abs(fewer[:, :3] - noisy[fewer[:, 3].astype(int)]).max() < 0.6


def test_lists_and_batches_are_denoised_one_by_one(model: PDFlow, sphere: Sphere) -> None:
    one, two = sphere(200), sphere(300, seed=1)
    alone = [denoise(each, model=model, iterations=1) for each in (one, two)]
    clean, reports = denoise([one, two], model=model, iterations=1, return_report=True)
    assert all(np.array_equal(a, b) for a, b in zip(clean, alone, strict=True))
    assert [report.points for report in reports] == [200, 300]
    batch = np.stack([one, two[:200]])
    clean_batch, columns = denoise(batch, model=model, iterations=1, displacement=True)
    assert np.array_equal(clean_batch[0], alone[0])
    assert np.array_equal(batch + columns["displacement"], clean_batch)
    kept = denoise((pdflow.PointCloud(one, {"i": np.arange(200)}),), model=model, iterations=1)
    assert type(kept) is tuple
    assert np.array_equal(kept[0].attributes["i"], np.arange(200))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"return_report": True}, "own report: pass a list"),
        ({"outliers": "remove"}, "equal numbers of points"),
    ],
)
def test_batches_refuse_what_they_cannot_return(
    model: PDFlow, options: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(PdflowError, match=sentence):
        denoise(np.zeros((2, 100, 3)), model=model, **options)


def test_an_object_with_points_comes_back_whole(model: PDFlow, sphere: Sphere) -> None:
    scan = SimpleNamespace(points=sphere(200), sigma=np.full(200, 0.05), station="north")
    clean, report = denoise(scan, model=model, noise="sigma", return_report=True)
    assert clean.station == "north"
    assert np.array_equal(clean.points, denoise(scan.points, model=model, noise=scan.sigma))
    assert report.noise_before == pytest.approx(0.05)
    with pytest.raises(PdflowError, match="no room for 'displacement'"):
        denoise(scan, model=model, displacement=True)


def test_progress_tells_the_share_that_is_done(model: PDFlow, sphere: Sphere) -> None:
    heard: list[float] = []
    denoise([sphere(1500), sphere(200)], model=model, iterations=1, progress=heard.append)
    assert heard[0] == 0
    assert heard[-1] == 1
    assert heard == sorted(heard)
    assert len(heard) > 5


def test_raising_from_progress_ends_the_run(model: PDFlow, sphere: Sphere) -> None:
    class Enough(Exception):
        pass

    heard: list[float] = []

    def stop(done: float) -> None:
        heard.append(done)
        if done > 0.1:
            raise Enough

    with pytest.raises(Enough):
        denoise(sphere(8000), model=model, iterations=1, progress=stop)
    assert len(heard) <= 5


def test_other_libraries_are_not_imported() -> None:
    code = (
        "import numpy as np, pdflow, sys; "
        "pdflow.denoise(np.random.default_rng(0).random((100, 3)), iterations=1); "
        "print(*{n.partition('.')[0] for n in sys.modules} & "
        "{'open3d', 'trimesh', 'pyvista', 'vtk', 'rich', 'IPython'})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
