"""The Denoiser: equivariant, deterministic, complete, and gentle with odd clouds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import pdflow
from pdflow.backends.compiled.backend import CompiledBackend
from pdflow.cloud import PointCloud
from pdflow.config import FlowConfig, InferenceConfig
from pdflow.errors import LossWarning, PdflowError
from pdflow.geometry.neighbors import NeighborSearch
from pdflow.model import PDFlow
from pdflow.noise.estimate import NoiseEstimate
from pdflow.pipeline import passes
from pdflow.pipeline.api import denoise
from pdflow.pipeline.denoise import Denoiser
from pdflow.pipeline.outliers import find_outliers
from pdflow.pipeline.plan import Plan
from pdflow.weights import load_model


@pytest.fixture(scope="module")
def model() -> PDFlow:
    return load_model("pdflow")


def _sphere(count: int, noise: float = 0.05, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(count, 3))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    return points + noise * rng.normal(size=points.shape)


def _off_sphere(points: np.ndarray) -> float:
    return float(np.sqrt(np.mean((np.linalg.norm(points, axis=1) - 1) ** 2)))


def test_noise_is_removed_and_rows_are_kept(model: PDFlow) -> None:
    noisy = _sphere(3000)
    colours = np.arange(9000, dtype=np.uint8).reshape(3000, 3)
    cloud = PointCloud(noisy, {"colors": colours}, {"crs": "EPSG:25832"})
    done = Denoiser(model)(cloud)
    assert len(done.cloud) == 3000
    assert np.array_equal(done.cloud.attributes["colors"], colours)
    assert done.cloud.metadata == {"crs": "EPSG:25832"}
    assert _off_sphere(done.cloud.points) < 0.5 * _off_sphere(noisy)
    moves = np.linalg.norm(done.cloud.points - noisy, axis=1)
    assert done.report.mean_displacement == pytest.approx(moves.mean())
    assert done.report.max_displacement == pytest.approx(moves.max())
    assert moves.max() < 0.4
    assert done.report.noise_before == pytest.approx(0.05, rel=0.3)
    assert done.report.noise_after < 0.5 * done.report.noise_before


def test_it_moves_and_scales_with_the_cloud(model: PDFlow) -> None:
    noisy = _sphere(2000)
    clean = denoise(noisy, model=model)
    shift = np.array([5e6, -4e5, 300.0])
    far = denoise(250.0 * noisy + shift, model=model)
    assert np.abs((far - shift) / 250.0 - clean).max() < 1e-4


def test_utm_coordinates_keep_their_digits(model: PDFlow) -> None:
    noisy = _sphere(1500) + np.array([5e6, 4e5, 100.0])
    clean = denoise(noisy, model=model)
    assert _off_sphere(clean - np.array([5e6, 4e5, 100.0])) < 0.6 * 0.05


def test_a_second_run_gives_the_same_bits(model: PDFlow) -> None:
    noisy = _sphere(2500)
    assert np.array_equal(denoise(noisy, model=model), denoise(noisy, model=model))


def test_resampling_spreads_points_evenly_and_takes_attributes_along(model: PDFlow) -> None:
    noisy = _sphere(2000)
    cloud = PointCloud(noisy, {"row": np.arange(2000)})
    done = Denoiser(model, mode="resample", points=1200)(cloud)
    assert len(done.cloud) == 1200
    rows = done.cloud.attributes["row"]
    gaps = np.linalg.norm(done.cloud.points[:, None] - noisy[None], axis=2)
    assert np.array_equal(gaps.argmin(axis=1), rows)
    assert _off_sphere(done.cloud.points) < 0.5 * _off_sphere(noisy)


@pytest.mark.parametrize("kind", ["float64", "float32", "tensor"])
def test_the_same_kind_comes_back(model: PDFlow, kind: str) -> None:
    noisy = _sphere(500)
    given: Any = torch.from_numpy(noisy).float() if kind == "tensor" else noisy.astype(kind)
    clean = pdflow.denoise(given, model=model)
    assert type(clean) is type(given)
    assert clean.dtype == given.dtype
    assert clean.shape == given.shape


@pytest.mark.parametrize("dtype", [torch.int32, torch.bfloat16, torch.float16])
def test_tensors_of_any_numbers_are_taken(model: PDFlow, dtype: torch.dtype) -> None:
    given = torch.from_numpy(1000 * _sphere(200)).to(dtype)
    clean = pdflow.denoise(given, model=model)
    assert clean.dtype == (dtype if dtype.is_floating_point else torch.float64)
    assert not torch.equal(clean.double(), given.double())
    assert (clean.double() != clean.double().round()).any()


@pytest.mark.parametrize("given", ["cloud.ply", [[1, 2, 3], [4, 5]], np.ones((99, 3)) * 1j])
def test_what_is_no_array_of_numbers_is_refused(model: PDFlow, given: Any) -> None:
    with pytest.raises(PdflowError, match=r"^[^\n]+ numbers: [^\n]+\.$"):
        denoise(given, model=model)


def test_numbers_may_be_of_numpy(model: PDFlow) -> None:
    noisy = _sphere(200)
    one = denoise(noisy, model=model, iterations=2, partitions=2, seed=3)
    options = {"iterations": np.int64(2), "partitions": np.int32(2), "seed": np.uint8(3)}
    assert np.array_equal(denoise(noisy, model=model, **options), one)


@pytest.mark.parametrize("count", [64, 65, 200, 1023, 1024, 1025, 2000])
def test_small_clouds_work(model: PDFlow, count: int) -> None:
    noisy = _sphere(count)
    clean = denoise(noisy, model=model)
    assert np.isfinite(clean).all()
    assert np.abs(clean - noisy).max() < 0.5


@pytest.mark.parametrize("count", [1, 2, 63])
def test_tiny_clouds_say_why_not(model: PDFlow, count: int) -> None:
    with pytest.raises(PdflowError, match="at least 64"):
        denoise(_sphere(count), model=model)


def test_copies_of_a_point_move_together(model: PDFlow) -> None:
    noisy = _sphere(600)
    clean = denoise(
        np.concatenate([noisy, noisy[:300], noisy[:1].repeat(1500, axis=0)]), model=model
    )
    assert np.array_equal(clean[600:900], clean[:300])
    assert (clean[900:] == clean[0]).all()


@pytest.mark.parametrize("flat", ["line", "plane"])
def test_flat_clouds_stay_flat(model: PDFlow, flat: str) -> None:
    points = np.random.default_rng(0).uniform(size=(800, 3))
    points[:, 2] = 0
    if flat == "line":
        points[:, 1] = 0
    clean = denoise(points, model=model)
    assert np.isfinite(clean).all()
    assert np.abs(clean[:, 2]).max() < 0.05


def test_far_apart_parts_are_both_denoised(model: PDFlow) -> None:
    one, other = _sphere(1500), _sphere(1500, seed=1)
    clean = denoise(np.concatenate([one, other + 500.0]), model=model)
    assert _off_sphere(clean[:1500]) < 0.6 * _off_sphere(one)
    assert _off_sphere(clean[1500:] - 500.0) < 0.6 * _off_sphere(other)


def test_components_smaller_than_a_patch_are_clouds_of_their_own(
    model: PDFlow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All but for the noise, which is that of the whole cloud."""
    noise = NoiseEstimate(0.04, relative=0.04, spacing=0.01, reliable=True)
    for module in ("denoise", "passes"):
        monkeypatch.setattr(f"pdflow.pipeline.{module}.estimate_noise", lambda points: noise)
    components = [
        _sphere(700),
        0.01 * _sphere(900, seed=1),
        _sphere(80, seed=2),
        _sphere(40, seed=3),
    ]
    places = np.array([[0.0, 0, 0], [300, 0, 0], [1e6, 0, 0], [-1e6, 0, 0]])
    noisy = np.concatenate([i + at for i, at in zip(components, places, strict=True)])
    shares: list[float] = []
    run = Denoiser(model, iterations=1, partitions=1)
    done = run(PointCloud(noisy), shares.append)
    parts = np.split(done.cloud.points, [700, 1600, 1680])
    for part, component, at in zip(parts[:3], components, places, strict=False):
        alone = run(PointCloud(component)).cloud.points
        assert np.abs(part - at - alone).max() < 1e-4 * np.ptp(component)
    assert np.array_equal(parts[3], noisy[1680:])
    assert sum(shares) == pytest.approx(1)


def test_few_points_far_from_all_others_stay_where_they_are(model: PDFlow) -> None:
    few = [_sphere(30, seed=i) + np.array([1e6 * (i + 1), 0, 0]) for i in range(5)]
    noisy = np.concatenate([_sphere(700), *few])
    clean = denoise(noisy, model=model)
    assert np.array_equal(clean[700:], noisy[700:])
    assert _off_sphere(clean[:700]) < 0.7 * _off_sphere(noisy[:700])


def test_components_get_their_share_of_new_points(model: PDFlow) -> None:
    noisy = np.concatenate([_sphere(700), _sphere(300, seed=1) + 1e4])
    for count in (1000, 4000):
        clean = denoise(noisy, model=model, mode="resample", points=count)
        assert len(clean) == count
        assert (clean[:, 0] > 5e3).mean() == pytest.approx(0.3, abs=0.05)


def test_resampling_leaves_kept_outliers_where_they_are(model: PDFlow) -> None:
    apart = np.array([[9.0, 0, 0], [0, 7.0, 0], [0, 0, -8.0]])
    cloud = PointCloud(np.concatenate([_sphere(900), apart]))
    kept = Denoiser(model, mode="resample")(cloud).cloud
    assert len(kept) == 903
    assert {tuple(p) for p in apart} == {tuple(p) for p in kept.points if np.linalg.norm(p) > 2}
    marked = Denoiser(model, mode="resample", outliers="mark")(cloud).cloud
    assert marked.attributes["outlier"][-3:].tolist() == [1, 1, 1]
    removed = Denoiser(model, mode="resample", outliers="remove", points=50)(cloud).cloud
    assert len(removed) == 50
    assert np.linalg.norm(removed.points, axis=1).max() < 2


@pytest.mark.parametrize("count", [1, 5, 2000])
def test_any_number_of_points_is_resampled_in_any_number_of_passes(
    model: PDFlow, count: int
) -> None:
    done = Denoiser(model, mode="resample", points=count, iterations=2)(PointCloud(_sphere(300)))
    assert len(done.cloud) == count
    assert _off_sphere(done.cloud.points) < 0.1


def test_too_many_points_are_refused(model: PDFlow) -> None:
    with pytest.raises(PdflowError, match="at most 10000"):
        denoise(_sphere(100), model=model, mode="resample", points=10001)


def test_outliers_are_kept_marked_or_removed_and_bend_nothing(model: PDFlow) -> None:
    noisy = _sphere(2000)
    apart = np.array([[9.0, 0, 0], [0, 7.0, 0], [0, 0, -8.0]])
    cloud = PointCloud(np.concatenate([noisy, apart]))
    kept = Denoiser(model, outliers="keep")(cloud)
    marked = Denoiser(model, outliers="mark")(cloud)
    removed = Denoiser(model, outliers="remove")(cloud)
    assert np.array_equal(kept.cloud.points[2000:], apart)
    assert marked.cloud.attributes["outlier"].tolist()[-4:] == [0, 1, 1, 1]
    assert len(removed.cloud) == 2000
    assert removed.report.outliers == 3
    alone = denoise(noisy, model=model)
    assert np.abs(removed.cloud.points - alone).max() < 1e-3


@pytest.mark.parametrize(("deviations", "found"), [(4.5, 0), (8.0, 1)])
def test_a_point_that_noise_explains_is_no_outlier(
    model: PDFlow, deviations: float, found: int
) -> None:
    noisy = _sphere(10000, noise=0.2)
    noisy[7] *= (1 + deviations * 0.2) / np.linalg.norm(noisy[7])
    assert find_outliers(NeighborSearch(noisy)).nonzero()[0].tolist() == [7]
    done = Denoiser(model)(PointCloud(noisy))
    assert done.report.outliers == found
    assert np.array_equal(done.cloud.points[7], noisy[7]) == bool(found)


def test_unevenly_measured_points_stay_in_place_along_the_surface(model: PDFlow) -> None:
    rng = np.random.default_rng(0)
    noisy = np.column_stack([rng.random((6000, 2)), 0.003 * rng.normal(size=6000)])
    points = Denoiser(model)(PointCloud(noisy)).cloud.points
    inner = (np.abs(noisy[:, :2] - 0.5) < 0.45).all(axis=1)
    assert np.sqrt(np.mean((points - noisy)[inner, :2] ** 2)) < 0.001
    assert np.std(points[inner, 2]) < 0.5 * np.std(noisy[:, 2])


def test_displacement_is_stored_where_asked_for(model: PDFlow) -> None:
    noisy = _sphere(800)
    done = Denoiser(model, displacement=True)(PointCloud(noisy))
    moved = noisy + done.cloud.attributes["displacement"]
    assert moved == pytest.approx(done.cloud.points, abs=1e-12)


def test_replacing_an_attribute_gives_a_warning(model: PDFlow) -> None:
    cloud = PointCloud(_sphere(100), {"outlier": np.arange(100), "displacement": np.arange(100)})
    with pytest.warns(LossWarning) as warned:
        done = Denoiser(model, displacement=True, outliers="mark")(cloud)
    assert sorted(str(w.message).split("'")[1] for w in warned) == ["displacement", "outlier"]
    assert done.cloud.attributes["outlier"].max() <= 1
    assert np.array_equal(denoise(cloud, model=model).attributes["outlier"], np.arange(100))


def test_partitions_are_never_too_small(model: PDFlow) -> None:
    done = Denoiser(model, partitions=10**6)(PointCloud(_sphere(200)))
    assert done.report.partitions == 3


def test_passes_and_partitions_can_be_given(model: PDFlow) -> None:
    noisy = _sphere(3000)
    done = Denoiser(model, iterations=2, partitions=3)(PointCloud(noisy))
    assert (done.report.iterations, done.report.partitions) == (2, 3)
    assert _off_sphere(done.cloud.points) < 0.6 * _off_sphere(noisy)


def test_progress_adds_up_to_one(model: PDFlow) -> None:
    shares: list[float] = []
    Denoiser(model, iterations=2, partitions=2)(PointCloud(_sphere(2500)), shares.append)
    assert sum(shares) == pytest.approx(1)
    assert min(shares) > 0


def test_progress_adds_up_to_one_where_passes_are_saved(
    model: PDFlow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pdflow.pipeline.passes.CONVERGED", 1.0)
    monkeypatch.setattr("pdflow.pipeline.denoise.make_plan", lambda *_: Plan(4, 2))
    shares: list[float] = []
    done = Denoiser(model)(PointCloud(_sphere(300)), shares.append)
    assert done.report.iterations == 1
    assert sum(shares) == pytest.approx(1)


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


def test_nonfinite_points_are_refused(model: PDFlow) -> None:
    points = _sphere(100)
    points[3] = np.nan
    with pytest.raises(PdflowError, match="NaN"):
        denoise(points, model=model)


def test_balls_can_grow_patches(model: PDFlow) -> None:
    noisy = _sphere(2000)
    clean = denoise(noisy, model=model, radius=0.8)
    assert _off_sphere(clean) < 0.7 * _off_sphere(noisy)


def test_a_network_can_be_conditioned_on_the_estimated_noise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    torch.manual_seed(0)
    config = FlowConfig(
        edge_neighbours=(0,), augment_dims=5, hidden=8, filter="fbm", condition="graph",
        condition_neighbours=8, condition_hidden=8, condition_features=8, augment_flow="affine",
        patch_points=200, noise_conditioning=True, noise_unit=4.0,
    )  # fmt: skip
    inference = InferenceConfig(patch_radius=(4.0, 4.0), centred=True)
    noisy = 10.0 * _sphere(1500, 0.03)
    sigmas: list[np.ndarray] = []
    original = CompiledBackend.run

    def listen(self: CompiledBackend, *given: Any) -> np.ndarray:
        sigmas.append(given[2])
        return original(self, *given)

    monkeypatch.setattr(CompiledBackend, "run", listen)
    run = Denoiser(PDFlow(config, inference).eval(), iterations=1, partitions=1, outliers="mark")
    moved = run(PointCloud(noisy)).cloud.points
    assert np.isfinite(moved).all()
    radius = np.sqrt(4 * 200 / 1500)  # of a cap with that share of a unit sphere's surface
    assert np.median(sigmas[0]) == pytest.approx(4 * 0.03 / radius, rel=0.15)


@pytest.mark.parametrize(
    ("points", "expected"),
    [(700, ["points", "points", "resample"]), (3000, ["resample", "points", "resample"])],
)
def test_passes_are_sampled_at_the_end_and_to_add_points(
    model: PDFlow, monkeypatch: pytest.MonkeyPatch, points: int, expected: list[str]
) -> None:
    stitched: list[str] = []
    for name, original in passes.STITCHERS.items():

        def spy(*given: Any, name: str = name, original: Any = original) -> Any:
            stitched.append(name)
            return original(*given)

        monkeypatch.setitem(passes.STITCHERS, name, spy)
    run = Denoiser(model, mode="resample", iterations=3, partitions=1, points=points)
    assert len(run(PointCloud(_sphere(1500))).cloud) == points
    assert stitched == expected
