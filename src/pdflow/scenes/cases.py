"""Named cases: a surface, how it is scanned, and with which errors.

`make_case(kind, seed)` makes the same case each time. Seeds below HELD_OUT_SEEDS are for training,
those from it on are held out for tests and tables; `training_scan` refuses the latter.
"""

from __future__ import annotations

from dataclasses import dataclass
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from pdflow.errors import PdflowError
from pdflow.geometry.arrays import FloatArray, IntArray
from pdflow.mesh import TriangleMesh
from pdflow.scenes.errors import Measured, add_errors, add_outliers, mix_pixels
from pdflow.scenes.fields import log_uniform
from pdflow.scenes.objects import plates
from pdflow.scenes.scan import Scan
from pdflow.scenes.scanners import SCANNERS
from pdflow.scenes.surface import NOISE, Surface
from pdflow.scenes.surfaces import SURFACES

HELD_OUT_SEEDS = 1_000_000
"""Seeds from here on are never trained on."""

OPEN = ("bumpy-sheet", "saddle", "cloth", "helix-strip")
SHARP = ("boxes", "stairs", "profile-bar", "facets", "slab")
DETAILED = ("torus", "ellipsoid", "vase")
OBJECTS = (*OPEN, *SHARP, *DETAILED, "plates", "rods", "rounded-box")


@dataclass(frozen=True)
class Kind:
    """What the cases of a kind have in common; each draws one of several.

    surfaces      names of SURFACES
    scanners      names of SCANNERS
    noises        names of NOISES
    gap           distance between plates in sigmas; None leaves it to the surface
    mixed_pixels  part of the points at depth edges that are mixed
    outliers      name of OUTLIERS; None adds none
    """

    surfaces: tuple[str, ...]
    scanners: tuple[str, ...]
    noises: tuple[str, ...] = ("independent",)
    gap: float | None = None
    mixed_pixels: float = 0.0
    outliers: str | None = None


KINDS: dict[str, Kind] = {
    "scan-lines": Kind(("bumpy-sheet", "saddle", "ellipsoid", "torus"), ("line-scanner",)),
    "plates": Kind(("plates",), ("random",), gap=2.0),
    "double-sheet-rim": Kind(("plates",), ("random",), gap=4.0),
    "open-sheet": Kind(OPEN, ("even", "random")),
    "sharp-edges": Kind(SHARP, ("even", "random")),
    "rods": Kind(("rods",), ("even", "random")),
    "thin-ends": Kind(("limbs",), ("even", "random")),
    "sparse-detail": Kind(DETAILED, ("even",)),
    "strokes": Kind(DETAILED, ("strokes",)),
    "fading": Kind(OBJECTS, ("fading",)),
    "holes": Kind(OBJECTS, ("even-holes",)),
    "depth-camera": Kind(
        ("room", "boxes", "vase", "rounded-box"), ("depth-camera",), ("correlated",),
        mixed_pixels=0.3,
    ),
    "quantised": Kind(("room", "boxes", "vase", "cloth"), ("depth-camera",), ("quantised",)),
    "rotating-head": Kind(
        ("room", *SHARP, *DETAILED), ("rotating-head",), ("ray", "range"), mixed_pixels=0.2
    ),
    "correlated": Kind(OBJECTS, ("even", "random"), ("correlated",)),
    "registration": Kind(OBJECTS, ("even", "rotating-head"), ("registration",)),
    "terrain-tile": Kind(("terrain",), ("line-scanner",), ("ray",)),
    "street": Kind(("terrain",), ("rotating-head",), ("range",)),
    "outliers-uniform": Kind(OBJECTS, ("even", "random"), outliers="uniform"),
    "outliers-clumped": Kind(OBJECTS, ("even", "random"), outliers="clumped"),
    "outliers-rays": Kind(OBJECTS, ("even", "random"), outliers="rays"),
}  # fmt: skip


@dataclass(frozen=True)
class Case:
    """A noisy cloud, and the truth about it.

    clean     (M, 3) points without errors
    noisy     (M', 3), M' >= M: those points in the same rows, then outliers that were added
    mesh      the surface
    sigma     (M',) effective sigma, as `pdflow.scenes.errors` defines it; NaN for outliers
    outliers  (M',) bool: added outliers and mixed pixels
    classes   (M',) with the codes of LAS, outliers that were added being 7
    scan      the scan, with rays, normals and pixels of the clean points
    """

    clean: FloatArray
    noisy: FloatArray
    mesh: TriangleMesh
    sigma: FloatArray
    outliers: NDArray[np.bool_]
    classes: IntArray
    scan: Scan


def make_case(
    kind: str,
    seed: int,
    points: int = 20_000,
    level: float = 0.01,
    *,
    sigma: float | None = None,
    outlier_share: float = 0.05,
) -> Case:
    """The case of a kind that belongs to a seed.

    kind           one of KINDS
    seed           below HELD_OUT_SEEDS for training, from it on for tests
    points         how many a scanner takes, within 10 %
    level          noise relative to the radius of the clean points' bounding sphere
    sigma          noise in the unit of the scene instead: an object has a radius of about 1,
                   rooms and terrain are in metres
    outlier_share  outliers that are added in kinds that have them, as a part of the points

    >>> case = make_case("open-sheet", HELD_OUT_SEEDS, points=500)
    >>> case.clean.shape == case.noisy.shape == (500, 3)
    True
    """
    if kind not in KINDS:
        raise PdflowError(f"There is no kind of case {kind!r}: choose one of {', '.join(KINDS)}.")
    recipe = KINDS[kind]
    rng = _generator(kind, seed)
    if recipe.gap is not None:  # the radius of plates is 1, so that a level is a distance
        surface = plates(rng, recipe.gap * (level if sigma is None else sigma))
    else:
        surface = SURFACES[_one_of(recipe.surfaces, rng)](rng)
    scan = SCANNERS[_one_of(recipe.scanners, rng)](surface, points, rng)
    size = level * scan.radius if sigma is None else sigma
    measured = add_errors(scan, _one_of(recipe.noises, rng), size, rng)
    if recipe.mixed_pixels and size > 0:
        measured = mix_pixels(scan, measured, recipe.mixed_pixels, rng)
    if recipe.outliers is not None:
        measured = add_outliers(scan, measured, recipe.outliers, outlier_share, rng)
    return _case(scan, measured)


def _case(scan: Scan, measured: Measured) -> Case:
    added = len(measured.points) - len(scan)
    classes = np.concatenate([scan.classes, np.full(added, NOISE)])
    return Case(
        scan.points, measured.points, scan.mesh, measured.sigma, measured.outliers, classes, scan
    )


def _generator(name: str, seed: int) -> np.random.Generator:
    """Random numbers of a name and a seed: equal seeds of two kinds have nothing in common."""
    return np.random.default_rng([crc32(name.encode()), seed])


def _one_of(names: tuple[str, ...], rng: np.random.Generator) -> str:
    return names[int(rng.integers(len(names)))]


PLACE_SHARE = 0.25
"""Part of the training scans that show a place rather than an object."""

TRAINING_PLACES = ("terrain", "terrain", "room")
"""Terrain twice as often, because only it has points that lie on no surface."""

TRAINING_OBJECTS = (*OBJECTS, "limbs", "limbs")
"""Limbs twice as often: noisy thin ends look like leaves, which are to stay as they are."""

PLACE_SCANNERS = ("rotating-head", "line-scanner", "depth-camera", "random", "fading")
"""Scanners of places: nobody samples a street evenly."""


def training_scan(seed: int, points: tuple[int, int] = (10_000, 30_000)) -> Scan:
    """A scan to train on: any surface, any scanner that suits it.

    seed    below HELD_OUT_SEEDS
    points  fewest and most; the logarithm of their number is uniform
    """
    if not 0 <= seed < HELD_OUT_SEEDS:
        raise PdflowError(
            f"Seed {seed} is held out for tests: train with seeds from 0 to {HELD_OUT_SEEDS - 1}."
        )
    rng = _generator("training", seed)
    count = round(log_uniform(rng, *points))
    if rng.random() < PLACE_SHARE:
        surface: Surface = SURFACES[_one_of(TRAINING_PLACES, rng)](rng)
        return SCANNERS[_one_of(PLACE_SCANNERS, rng)](surface, count, rng)
    surface = SURFACES[_one_of(TRAINING_OBJECTS, rng)](rng)
    return SCANNERS[_one_of(tuple(SCANNERS), rng)](surface, count, rng)
