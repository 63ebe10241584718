"""Denoiser: one cloud from noisy to clean. The method's figure, in code.

    normalise -> patch -> flow -> filter -> inverse -> stitch -> restore

Coordinates are float64 throughout; only inside the network a patch is float32, in a frame of
its own around its seed.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pdflow.cloud import PointCloud
from pdflow.device import best_device
from pdflow.errors import PdflowError
from pdflow.geometry.distinct import distinct
from pdflow.geometry.farthest import farthest_point_sampling
from pdflow.geometry.frame import unit_sphere
from pdflow.geometry.neighbors import knn
from pdflow.geometry.partition import interleave
from pdflow.geometry.patches import cover
from pdflow.geometry.stitch import blend, resample
from pdflow.inference import (
    Progress,
    denoise_patches,
    network_frames,
    scaled,
    told_noise,
)
from pdflow.islands import FEWEST_POINTS, split_islands
from pdflow.lateral import without_evening
from pdflow.likelihood import find_unlikely
from pdflow.model import PDFlow
from pdflow.noise.estimate import NoiseEstimate, estimate_noise
from pdflow.options import as_numbers, is_number, whole_number
from pdflow.outliers import find_outliers, within_noise
from pdflow.results import Denoised, Report, with_columns, without_row_metadata
from pdflow.schedule import Plan, Told, make_plan, told_share
from pdflow.weights import load_model

if TYPE_CHECKING:
    import torch

DEFAULT_MODEL = "pdflow"
MODES = ("points", "resample")
OUTLIERS = ("keep", "mark", "remove")
BLEND_SHARPNESS = 8.0
OVERLAP = 3.0
"""Patches that a point is in, where not told: with two, points are a few percent less exact."""
LOOK = 0.6
"""Share of a run that the search for unlikely points takes, for the progress bar."""
GONE = 0.02
"""Noise left, as a share of what there was, below which no further pass is made."""
Points = NDArray[np.float64]


@dataclass(frozen=True)
class Denoiser:
    """Everything a run depends on; call it with a cloud.

    model       a loaded network
    mode        "points": each point keeps its row and is moved, but not along the surface where
                noise cannot explain it; "resample" (the paper's): in the last pass the union of
                all patches is sampled evenly to `points` points (default: as many)
    iterations  passes through the network, or "auto": as the estimated noise asks for
    parts       sparser clouds that the first pass works on (partition denoising), or "auto"
    overlap     patches that a point is in, on average
    radius      None grows patches by nearest neighbours; a number keeps them in that ball
    outliers    "keep" leaves points without a surface near them where they are; "mark" and
                "remove" also ask the flow which points are unlikely, and add a column
                `outlier` or take them out; outliers never bend a surface
    seed        None decodes from the mean of the extra dimensions; a number draws them
    """

    model: PDFlow
    mode: str = "points"
    iterations: int | str = "auto"
    parts: int | str = "auto"
    points: int | None = None
    overlap: float = OVERLAP
    radius: float | None = None
    outliers: str = "keep"
    displacement: bool = False
    seed: int | None = None

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise PdflowError(f"Unknown mode {self.mode!r}: choose {' or '.join(MODES)}.")
        if self.outliers not in OUTLIERS:
            raise PdflowError(f"Unknown outliers {self.outliers!r}: choose {', '.join(OUTLIERS)}.")
        if self.points is not None and self.mode == "points":
            raise PdflowError("A number of points needs mode resample: each keeps its row else.")
        whole: tuple[tuple[str, float, str | None], ...] = (
            ("iterations", 1, "auto"),
            ("parts", 1, "auto"),
            ("points", 1, None),
            ("seed", -np.inf, None),
        )
        for name, lowest, other in whole:
            value = whole_number(name, getattr(self, name), lowest, other)
            object.__setattr__(self, name, value)
        if not is_number(self.overlap, 1):
            raise PdflowError(f"overlap is {self.overlap!r}: give a number of patches from 1.")
        if self.radius is not None and not is_number(self.radius, np.finfo(float).tiny):
            raise PdflowError(f"radius is {self.radius!r}: give a positive number.")

    def __call__(self, cloud: PointCloud, progress: Progress | None = None) -> Denoised:
        """Denoise a cloud. `progress` is called with the share (0 to 1) done since last time."""
        start = time.perf_counter()
        advance = progress or (lambda share: None)
        if not np.isfinite(cloud.points).all():
            raise PdflowError("The cloud has NaN or infinite points: leave them out first.")
        # Around its centre a cloud keeps all its digits, wherever on earth it is.
        center = unit_sphere(cloud.points).center
        noisy = cloud.points - center
        single, place = distinct(noisy)
        lonely = find_outliers(single)
        _need_surface(int(np.count_nonzero(~lonely)))
        noise = estimate_noise(single[~lonely])
        if lonely.any():
            lonely[lonely] = ~within_noise(single[lonely], single[~lonely], noise.sigma)
        if self.outliers != "keep":
            look = scaled(advance, LOOK)
            lonely[~lonely] = find_unlikely(self.model, single[~lonely], look)
            _need_surface(int(np.count_nonzero(~lonely)))
            advance = scaled(advance, 1 - LOOK)
        surface = single[~lonely]
        stray = lonely[place]
        inliers, strays = np.flatnonzero(~stray), np.flatnonzero(stray)
        if self.outliers == "remove":
            strays = strays[:0]
        count = self.points or len(inliers) + len(strays)
        # Where points are thinned, those that lie apart are thinned as much.
        some = min(len(strays), count * len(strays) // len(cloud))
        passes = self._passes(surface, noise, count - some, advance)
        if self.mode == "points":
            rows = np.arange(len(cloud))
            single[~lonely] = passes.points
            # How far a network of the paper's kind moves points along a surface is not known.
            if self.model.inference.centred:
                single[~lonely] = without_evening(surface, passes.points)
            moved = single[place]
        else:
            nearest = inliers[knn(noisy[inliers], passes.points, 1)[1][:, 0]]
            strays = strays[farthest_point_sampling(noisy[strays], some)]
            rows = np.concatenate([nearest, strays])
            moved = np.concatenate([passes.points, noisy[strays]])
        placed = moved + center
        still = (moved == noisy[rows]).all(axis=1)
        placed[still] = cloud.points[rows[still]]  # to the last bit
        shift = placed - cloud.points[rows]
        columns: dict[str, NDArray[Any]] = {}
        if self.displacement:
            columns["displacement"] = shift
        if self.outliers == "mark":
            columns["outlier"] = stray[rows].astype(np.uint8)
        taken = cloud[rows] if self.mode == "points" else without_row_metadata(cloud[rows])
        result = with_columns(taken.with_points(placed), columns)
        if self.outliers == "remove":
            result = result[~stray[rows]]
        lengths = np.linalg.norm(shift, axis=1)
        report = Report(
            points=len(cloud),
            points_out=len(result),
            outliers=int(stray.sum()),
            noise_before=passes.before.sigma,
            noise_after=passes.after.sigma,
            iterations=passes.iterations,
            parts=passes.parts,
            mean_displacement=float(lengths.mean()),
            max_displacement=float(lengths.max()),
            seconds=time.perf_counter() - start,
        )
        return Denoised(result, report)

    def _passes(
        self, points: Points, before: NoiseEstimate, count: int, advance: Progress
    ) -> Passes:
        """The passes that were asked for, or that the noise asks for; fewer if it is gone."""
        after = before
        plan = Plan(1, 1)
        if "auto" in (self.iterations, self.parts):
            plan = make_plan(points, before, self.model.config.patch_points, self.model.inference)
        passes = plan.passes if self.iterations == "auto" else int(self.iterations)
        parts = plan.parts if self.parts == "auto" else int(self.parts)
        parts = min(parts, max(1, len(points) // FEWEST_POINTS))
        done = 0
        while done < passes:
            split = parts if done == 0 else 1
            scale = 1 / (split * passes)
            told = Told(before, told_share(self.model.inference, done, passes))
            # Means of patches are worth more than the places that single ones give: a pass is
            # sampled to add points, which the next one is the better for, or as the last one.
            sampled = self.mode == "resample" and (done == passes - 1 or count > len(points))
            wanted = max(count, len(points)) if sampled else None
            points = self._one_pass(points, told, wanted, split, scaled(advance, scale))
            done += 1
            after = estimate_noise(points)
            gone = self.iterations == "auto" and after.sigma <= GONE * before.sigma
            if gone and self.mode == "points":
                break
        if done < passes:
            advance((passes - done) / passes)
        if self.mode == "resample" and count < len(points):
            points = points[farthest_point_sampling(points, count)]
        return Passes(points, before, after, done, parts)

    def _one_pass(
        self, points: Points, told: Told, count: int | None, parts: int, advance: Progress
    ) -> Points:
        """All parts of a cloud through the network once.

        told   what networks that are told the noise hear
        count  points that the result is sampled to; None moves each point and keeps its row
        """
        if parts == 1:
            return self._denoise_part(points, told, count, advance)
        pieces = interleave(points, parts)
        if count is not None:
            shares = np.diff(np.linspace(0, count, parts + 1).round().astype(int))
            return np.concatenate(
                [
                    self._denoise_part(points[rows], told, share, advance)
                    for rows, share in zip(pieces, shares, strict=True)
                ]
            )
        moved = np.empty_like(points)
        for rows in pieces:
            moved[rows] = self._denoise_part(points[rows], told, None, advance)
        return moved

    def _denoise_part(
        self, points: Points, told: Told, count: int | None, advance: Progress
    ) -> Points:
        """Normalise, patch, flow, filter, inverse, stitch, restore."""
        config = self.model.config
        # New points are made of the places that patches give to the old ones.
        most = len(points) * min(len(points), config.patch_points)
        if count is not None and count > most:
            raise PdflowError(f"{count} points cannot be made: ask for at most {most}.")
        grown = (count or 0) / len(points)
        overlap = self.overlap if grown <= 1 else max(self.overlap, 1 + grown)
        patches = cover(points, config.patch_points, overlap, self.radius)
        if self.radius is None:
            islands = split_islands(patches, len(points))
            if len(islands) > 1:
                return self._denoise_apart(points, told, islands, count, advance)
        frames = network_frames(self.model, points, patches)
        clean = denoise_patches(
            self.model,
            frames.cut(points, patches.rows),
            self.seed,
            lambda done: advance(done / len(patches)),
            sigma=told_noise(self.model, told.at(points[patches.seeds]), frames),
        )
        moved = frames.undo(clean)
        if count is None:
            return blend(len(points), patches, moved, BLEND_SHARPNESS)
        return resample(points, patches, moved, count, BLEND_SHARPNESS)

    def _denoise_apart(
        self,
        points: Points,
        told: Told,
        islands: list[NDArray[np.int64]],
        count: int | None,
        advance: Progress,
    ) -> Points:
        """Each island as a cloud of its own; few points that are left over stay where they are."""
        shares: list[int | None] = [None] * len(islands)
        if count is not None:
            ends = np.cumsum([0, *map(len, islands)]) * count / len(points)
            shares = np.diff(ends.round().astype(int)).tolist()
        pieces = []
        for rows, share in zip(islands, shares, strict=True):
            own = scaled(advance, len(rows) / len(points))
            if len(rows) >= FEWEST_POINTS:
                pieces.append(self._denoise_part(points[rows], told, share, own))
            else:
                pieces.append(points[rows])
                own(1.0)
        moved = np.concatenate(pieces)
        if count is not None:
            return moved
        ordered = np.empty_like(points)
        ordered[np.concatenate(islands)] = moved
        return ordered


def _need_surface(count: int) -> None:
    if count < FEWEST_POINTS:
        raise PdflowError(
            f"The cloud has {count} distinct points on surfaces: at least {FEWEST_POINTS} are "
            "needed to tell a surface from noise."
        )


@dataclass(frozen=True)
class Passes:
    """Points after all passes, and what led there."""

    points: Points
    before: NoiseEstimate
    after: NoiseEstimate
    iterations: int
    parts: int


def denoise(
    points: Any,
    /,
    *,
    mode: str = "points",
    iterations: int | str = "auto",
    model: str | Path | PDFlow = DEFAULT_MODEL,
    device: str | torch.device | None = None,
    seed: int | None = None,
    **options: Any,
) -> Any:
    """Clean points of the same kind as `points`: a numpy array or torch tensor (M, 3), or a
    PointCloud, whose attributes are kept. Whole numbers become float64.

    device  where a named model works (default: the best there is); a loaded one stays where it is

    The other keywords, and further ones, are those of `Denoiser`.
    """
    if not isinstance(model, PDFlow):
        model = load_model(model, device or best_device())
    run = Denoiser(model, mode=mode, iterations=iterations, seed=seed, **options)
    if isinstance(points, PointCloud):
        return run(points).cloud
    if hasattr(points, "detach"):
        wide = points.detach().double()
        clean = wide.new_tensor(run(PointCloud(wide.cpu().numpy())).cloud.points)
        return clean.to(points.dtype) if points.is_floating_point() else clean
    array = as_numbers(points)
    clean = run(PointCloud(array)).cloud.points
    return clean.astype(array.dtype) if array.dtype.kind == "f" else clean
