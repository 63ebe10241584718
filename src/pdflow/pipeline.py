"""Denoiser: one cloud from noisy to clean. The method's figure, in code.

    normalise -> patch -> flow -> filter -> inverse -> stitch -> restore

Coordinates are float64 throughout; only inside the network a patch is float32, in a frame of
its own around its seed.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pdflow.cloud import PointCloud
from pdflow.errors import PdflowError
from pdflow.geometry.distinct import distinct
from pdflow.geometry.frame import unit_sphere
from pdflow.geometry.neighbors import knn
from pdflow.geometry.partition import interleave
from pdflow.geometry.patches import cover, patch_frames
from pdflow.geometry.stitch import blend, resample
from pdflow.inference import Progress, best_device, denoise_patches
from pdflow.likelihood import find_unlikely
from pdflow.model import PDFlow
from pdflow.noise.estimate import NoiseEstimate, estimate_noise
from pdflow.outliers import find_outliers
from pdflow.schedule import make_plan
from pdflow.weights import load_model

if TYPE_CHECKING:
    import torch

DEFAULT_MODEL = "pdflow"
MODES = ("points", "resample")
OUTLIERS = ("keep", "mark", "remove")
BLEND_SHARPNESS = 8.0
OVERLAP = 3.0
"""Patches that a point is in, where not told: with two, points are a few percent less exact."""
FEWEST_POINTS = 64
LOOK = 0.3
"""Share of a run that the search for unlikely points takes, for the progress bar."""
GONE = 0.02
"""Noise left, as a share of what there was, below which no further pass is made."""
Points = NDArray[np.float64]


@dataclass(frozen=True)
class Report:
    """What a run did. Lengths are in the cloud's own unit."""

    points: int
    points_out: int
    outliers: int
    noise_before: float
    noise_after: float
    iterations: int
    parts: int
    mean_displacement: float
    max_displacement: float
    seconds: float

    def as_dict(self) -> dict[str, Any]:
        """The report as JSON types."""
        return asdict(self)


@dataclass(frozen=True)
class Denoiser:
    """Everything a run depends on; call it with a cloud.

    model       a loaded network
    mode        "points": each point keeps its row and is moved; "resample" (the paper's): the
                union of all patches is sampled evenly to `points` points (default: as many)
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
        for name in ("iterations", "parts"):
            value = getattr(self, name)
            if value != "auto" and not (isinstance(value, int) and value >= 1):
                raise PdflowError(f"{name} is {value!r}: give a whole number from 1, or auto.")
        if self.points is not None and (self.mode == "points" or self.points < 1):
            raise PdflowError("A number of points needs mode resample and must be 1 or more.")
        if not self.overlap >= 1:
            raise PdflowError(f"overlap is {self.overlap}: every point needs 1 patch or more.")
        if self.radius is not None and not self.radius > 0:
            raise PdflowError(f"radius is {self.radius}: it must be positive.")

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
        if self.outliers != "keep" and np.count_nonzero(~lonely) >= FEWEST_POINTS:
            look = partial(_scaled, advance, LOOK)
            lonely[~lonely] = find_unlikely(self.model, single[~lonely], look)
            advance = partial(_scaled, advance, 1 - LOOK)
        surface = single[~lonely]
        if len(surface) < FEWEST_POINTS:
            raise PdflowError(
                f"The cloud has {len(surface)} distinct points on surfaces: at least "
                f"{FEWEST_POINTS} are needed to tell a surface from noise."
            )
        stray = lonely[place]
        passes = self._passes(surface, self.points or int((~stray).sum()), advance)
        if self.mode == "points":
            rows = np.arange(len(cloud))
            single[~lonely] = passes.points
            moved = single[place]
        else:
            moved = passes.points
            inliers = np.flatnonzero(~stray)
            rows = inliers[knn(noisy[inliers], moved, 1)[1][:, 0]]
        result = cloud[rows].with_points(moved + center)
        shift = result.points - cloud.points[rows]
        result = self._with_columns(result, stray[rows], shift)
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

    def _passes(self, points: Points, count: int, advance: Progress) -> Passes:
        """The passes that were asked for, or that the noise asks for; fewer if it is gone."""
        before = after = estimate_noise(points)
        plan = make_plan(points, before, self.model.config)
        passes = plan.passes if self.iterations == "auto" else int(self.iterations)
        parts = plan.parts if self.parts == "auto" else int(self.parts)
        done = 0
        while done < passes:
            split = parts if done == 0 else 1
            scale = 1 / (split * passes)
            points = self._one_pass(points, count, split, partial(_scaled, advance, scale))
            done += 1
            after = estimate_noise(points)
            if self.iterations == "auto" and after.sigma <= GONE * before.sigma:
                break
        return Passes(points, before, after, done, parts)

    def _one_pass(self, points: Points, count: int, parts: int, advance: Progress) -> Points:
        """All parts of a cloud through the network once; `count` points where resampled."""
        if parts == 1:
            return self._denoise_part(points, count, advance)
        pieces = interleave(points, parts)
        if self.mode == "resample":
            shares = np.diff(np.linspace(0, count, parts + 1).round().astype(int))
            return np.concatenate(
                [
                    self._denoise_part(points[rows], share, advance)
                    for rows, share in zip(pieces, shares, strict=True)
                ]
            )
        moved = np.empty_like(points)
        for rows in pieces:
            moved[rows] = self._denoise_part(points[rows], len(rows), advance)
        return moved

    def _denoise_part(self, points: Points, count: int, advance: Progress) -> Points:
        """Normalise, patch, flow, filter, inverse, stitch, restore."""
        config = self.model.config
        patches = cover(points, config.patch_points, self.overlap, self.radius)
        frames = patch_frames(
            points,
            patches,
            unit_sphere(points),
            config.patch_radius,
            config.patch_points,
            config.centred,
        )
        clean = denoise_patches(
            self.model,
            frames.cut(points, patches.rows),
            self.seed,
            lambda done: advance(done / len(patches)),
        )
        moved = frames.undo(clean)
        if self.mode == "points":
            return blend(len(points), patches, moved, BLEND_SHARPNESS)
        return resample(points, patches, moved, count, BLEND_SHARPNESS)

    def _with_columns(
        self, cloud: PointCloud, stray: NDArray[np.bool_], shift: Points
    ) -> PointCloud:
        """Attributes that were asked for; outliers taken out where they are to be removed."""
        attributes = dict(cloud.attributes)
        if self.displacement:
            attributes["displacement"] = shift
        if self.outliers == "mark":
            attributes["outlier"] = stray.astype(np.uint8)
        result = PointCloud(cloud.points, attributes, cloud.metadata)
        return result[~stray] if self.outliers == "remove" else result


@dataclass(frozen=True)
class Passes:
    """Points after all passes, and what led there."""

    points: Points
    before: NoiseEstimate
    after: NoiseEstimate
    iterations: int
    parts: int


@dataclass(frozen=True)
class Denoised:
    """A clean cloud and the report of how it was made."""

    cloud: PointCloud
    report: Report


def _scaled(advance: Progress, scale: float, share: float) -> None:
    advance(scale * share)


def denoise(
    points: Any,
    *,
    mode: str = "points",
    iterations: int | str = "auto",
    model: str | Path | PDFlow = DEFAULT_MODEL,
    device: str | torch.device | None = None,
    seed: int | None = None,
    **options: Any,
) -> Any:
    """Clean points of the same kind as `points`: a numpy array or torch tensor (M, 3), or a
    PointCloud, whose attributes are kept.

    The keywords, and further ones, are those of `Denoiser`.
    """
    if not isinstance(model, PDFlow):
        model = load_model(model, device or best_device())
    run = Denoiser(model, mode=mode, iterations=iterations, seed=seed, **options)
    if isinstance(points, PointCloud):
        return run(points).cloud
    if hasattr(points, "detach"):
        array = points.detach().cpu().numpy()
        return points.new_tensor(run(PointCloud(array)).cloud.points)
    array = np.asarray(points)
    clean = run(PointCloud(array)).cloud.points
    return clean.astype(array.dtype) if array.dtype.kind == "f" else clean
