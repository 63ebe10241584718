"""ScoreDenoise's folder layout, in which the data of the paper is distributed.

PUNet/pointclouds/{train,test}/10000_poisson/NAME.xyz     clean
PUNet/meshes/test/NAME.off                                surface
examples/PUNet_10000_poisson_0.01/NAME.xyz                noisy, one draw for all levels
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from itertools import product
from pathlib import Path

from pdflow.bench.cases import Case, Cell, Options, Points, percent, some_shapes, thousands
from pdflow.errors import PdflowError
from pdflow.geometry.frame import unit_sphere
from pdflow.io import read, read_mesh
from pdflow.mesh import TriangleMesh
from pdflow.noise.models import add_noise
from pdflow.train.recipe import load_recipe

RESOLUTIONS = (10_000, 50_000)
LEVELS = (0.01, 0.02, 0.03)
BASE_POINTS = 10_000
"""Resolution whose cells have weight 1."""
NOISE_NAMES = {
    "gaussian": "isotropic Gaussian",
    "anisotropic": "non-isotropic Gaussian",
    "unidirectional": "uni-directional",
    "uniform": "uniform",
    "discrete": "discrete",
}
"""Kind of `pdflow.noise` -> its name in the paper."""


def test_shapes(data: Path, wanted: int | tuple[str, ...] | None) -> tuple[str, ...]:
    """The test shapes that are wanted: names, how many, or None for all."""
    folder = data / "PUNet" / "meshes" / "test"
    names = tuple(sorted(path.stem for path in folder.glob("*.off")))
    if not names:
        raise PdflowError(
            f"{folder} holds no OFF files: give a folder in the layout of ScoreDenoise (PUNet/, "
            "examples/)."
        )
    return some_shapes(names, wanted)


def resolutions(options: Options) -> tuple[int, ...]:
    """The resolutions of a run: those of the options, or all that are on disk."""
    if options.points is not None:
        return options.points
    folder = options.data / "PUNet" / "pointclouds" / "test"
    found = tuple(n for n in RESOLUTIONS if (folder / f"{n}_poisson").is_dir())
    if not found:
        raise PdflowError(
            f"{folder} holds no folder 10000_poisson: give a folder in the layout of ScoreDenoise, "
            "or add --points."
        )
    return found


def settings(options: Options) -> list[tuple[int, float]]:
    """Every resolution with every noise level of a run."""
    return list(product(resolutions(options), options.levels or LEVELS))


def gaussian_cells(options: Options, metrics: tuple[str, ...]) -> list[Cell]:
    """Cells of the published noisy clouds, for each resolution and level."""
    chosen = settings(options)
    shapes = test_shapes(options.data, options.shapes)
    return [
        _cell(points, level, metrics, shapes, partial(_published_case, options.data, points, level))
        for points, level in chosen
    ]


def noise_cell(
    options: Options,
    points: int,
    level: float,
    kind: str,
    metrics: tuple[str, ...],
    block: str,
    name: str,
) -> Cell:
    """A cell of noise drawn here, with the seed of the run, on the clean test clouds."""
    shapes = test_shapes(options.data, options.shapes)
    load = partial(_drawn_case, options, "test", points, level, kind)
    return Cell(block, name, metrics, shapes, load, points / BASE_POINTS)


def heldout_cells(options: Options, metrics: tuple[str, ...]) -> list[Cell]:
    """Cells of the training shapes that our recipe holds out, on which choices are made."""
    shapes = some_shapes(load_recipe("pdflow-fast").data.holdout, options.shapes)
    return [
        _cell(
            points,
            level,
            metrics,
            shapes,
            partial(_drawn_case, options, "train", points, level, "gaussian"),
            prefix="held-out ",
            skips=("oracle",),  # training shapes have no mesh
        )
        for points, level in settings(options)
    ]


def _cell(
    points: int,
    level: float,
    metrics: tuple[str, ...],
    shapes: tuple[str, ...],
    load: Callable[[str], Case],
    prefix: str = "",
    skips: tuple[str, ...] = (),
) -> Cell:
    """A cell in the block of its resolution, called by its level."""
    block, weight = f"{prefix}{thousands(points)}", points / BASE_POINTS
    return Cell(block, percent(level), metrics, shapes, load, weight, skips=skips)


def _published_case(data: Path, points: int, level: float, shape: str) -> Case:
    noisy = read(data / "examples" / f"PUNet_{points}_poisson_{level:g}" / f"{shape}.xyz").points
    return Case(noisy, clean_cloud(data, "test", points, shape), test_mesh(data, shape))


def _drawn_case(
    options: Options, split: str, points: int, level: float, kind: str, shape: str
) -> Case:
    """Noise drawn on a clean cloud; only test shapes have a mesh."""
    clean = clean_cloud(options.data, split, points, shape)
    mesh = test_mesh(options.data, shape) if split == "test" else None
    return Case(add_noise(clean, kind, level, options.seed), clean, mesh)


def clean_cloud(data: Path, split: str, points: int, shape: str) -> Points:
    """Clean points (M, 3)."""
    path = data / "PUNet" / "pointclouds" / split / f"{points}_poisson" / f"{shape}.xyz"
    return read(path).points


def training_clouds(data: Path) -> list[Points]:
    """All clean training clouds (M, 3), each in its unit sphere."""
    paths = sorted((data / "PUNet" / "pointclouds" / "train").glob("*_poisson/*.xyz"))
    if not paths:
        raise PdflowError(f"{data} holds no PUNet/pointclouds/train/*_poisson/*.xyz to train on.")
    clouds = [read(path).points for path in paths]
    return [unit_sphere(cloud).apply(cloud) for cloud in clouds]


@lru_cache(maxsize=32)
def test_mesh(data: Path, shape: str) -> TriangleMesh:
    """The surface of a test shape."""
    return read_mesh(data / "PUNet" / "meshes" / "test" / f"{shape}.off")
