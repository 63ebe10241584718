"""Denoiser: one cloud from noisy to clean. The method's figure, in code.

    normalise -> separate outliers -> plan -> passes -> settle -> restore

and every pass of them

    patch -> flow, filter, inverse (a backend) -> stitch

Coordinates are float64 throughout; only inside the network a patch is float32, in a frame of its
own around its seed. One neighbour search belongs to each state of the cloud: the input, and what
each pass makes of it.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pdflow.backends import Progress, make_backend
from pdflow.cloud import PointCloud
from pdflow.errors import PdflowError
from pdflow.geometry.farthest import farthest_point_sampling
from pdflow.geometry.neighbors import NeighborSearch
from pdflow.geometry.tangential import limit_tangential_motion
from pdflow.model import PDFlow
from pdflow.noise.estimate import NoiseEstimate
from pdflow.parallel import fill_rows
from pdflow.pipeline.large import Layout, is_large, lay_out
from pdflow.pipeline.normalise import normalise
from pdflow.pipeline.options import check_choice, checked_numbers
from pdflow.pipeline.passes import Passed, Passes
from pdflow.pipeline.patching import Cutting
from pdflow.pipeline.plan import Plan, make_plan
from pdflow.pipeline.progress import Stage
from pdflow.pipeline.restraint import count_held_back, hold_back
from pdflow.pipeline.results import Denoised, Report, with_columns, without_row_metadata
from pdflow.pipeline.selection import leave_out, select
from pdflow.pipeline.surface import Surface
from pdflow.pipeline.survey import (
    Survey,
    far_points,
    is_clean,
    is_implausible,
    known_level,
    noise_of,
    require_surface,
    rows_of,
    survey_cloud,
)
from pdflow.pipeline.uncertainty import point_uncertainty

Mode = Literal["points", "resample"]
Outliers = Literal["keep", "mark", "remove"]
MODES: tuple[Mode, ...] = ("points", "resample")
OUTLIERS: tuple[Outliers, ...] = ("keep", "mark", "remove")

OVERLAP = 3.0
"""Patches that a point is in by default: two of them are a few percent less accurate."""
_LOG = logging.getLogger(__name__)
Points = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Denoiser:
    """Everything a run depends on; call it with a cloud.

    model       a loaded network
    mode        "points": each point keeps its row and is moved; motion along the surface is
                limited to what noise explains. "resample" (the paper's): the last pass samples
                the union of all patches evenly to `points` points (default: as many as before)
    iterations  passes through the network, or "auto": decided by the estimated noise
    partitions  sparser clouds that the first pass works on (partition denoising), or "auto"
    points      number of points to resample to
    overlap     patches that a point is in, on average
    radius      None grows patches by nearest neighbours; a number keeps them in that ball
    noise       standard deviation of the noise in the cloud's own unit, one for all points or one
                (M,) for each; the name of an attribute that holds them; or "auto": estimated
    max_move    farthest that a point may move in mode "points", in the cloud's own unit; None: 5
                standard deviations of the noise around it; infinity: no bound, and points that lie
                on no surface are not held back
    where       which points may move in mode "points"; the others stay and still show the surface:
                a mask (M,), a condition such as "classification in 2,6", or None: all
    outliers    "keep" leaves isolated points where they are; "mark" and "remove" find all that
                lie further off a surface than noise explains, and add a column `outlier` or drop
                the points; outliers never bend a surface
    outlier_class  class (0 to 255) that marked points get in files instead of a column; None: 7,
                low noise, in LAS files only
    displacement  whether to add a column `displacement` with the way each point was moved
    uncertainty   whether to add a column `uncertainty` in mode "points": the distance from the
                  surface, in the cloud's own unit, within which 95 % of such points lie; NaN for
                  points that lie on no surface
    seed        None decodes from the mean of the extra dimensions; a number draws them

    >>> import numpy as np, pdflow
    >>> model = pdflow.load_model("pdflow")
    >>> cloud = pdflow.PointCloud(np.random.default_rng(0).random((300, 3)) * [1, 1, 0.05])
    >>> done = pdflow.Denoiser(model, iterations=1)(cloud)
    >>> len(done.cloud), done.report.iterations
    (300, 1)
    """

    model: PDFlow = field(repr=False)
    mode: Mode = "points"
    iterations: int | Literal["auto"] = "auto"
    partitions: int | Literal["auto"] = "auto"
    points: int | None = None
    overlap: float = OVERLAP
    radius: float | None = None
    noise: float | str | NDArray[np.floating] = field(default="auto", compare=False)
    max_move: float | None = None
    where: str | NDArray[np.bool_] | None = field(default=None, compare=False)
    outliers: Outliers = "keep"
    outlier_class: int | None = None
    displacement: bool = False
    uncertainty: bool = False
    seed: int | None = None

    def __post_init__(self) -> None:
        check_choice("mode", self.mode, MODES)
        check_choice("outliers", self.outliers, OUTLIERS)
        if self.points is not None and self.mode == "points":
            raise PdflowError("points=N needs mode='resample'; mode 'points' keeps every row.")
        for name, value in checked_numbers(self).items():
            object.__setattr__(self, name, value)
        for name, unset in (("max_move", None), ("where", None), ("uncertainty", False)):
            if getattr(self, name) is not unset and self.mode != "points":
                raise PdflowError(f"{name} needs mode='points': resampled points are new ones.")
        if self.outlier_class is not None and self.outliers != "mark":
            raise PdflowError("outlier_class needs outliers='mark': nothing else marks points.")

    @property
    def added(self) -> tuple[str, ...]:
        """Attributes that a run adds to a cloud."""
        asked = ("displacement", self.displacement), ("uncertainty", self.uncertainty)
        return tuple(n for n, wanted in (*asked, ("outlier", self.outliers == "mark")) if wanted)

    @property
    def keeps_rows(self) -> bool:
        """Whether every point of a cloud keeps its row."""
        return self.mode == "points" and self.outliers != "remove"

    def __call__(
        self, cloud: PointCloud, progress: Progress | None = None, stage: Stage | None = None
    ) -> Denoised:
        """Denoise a cloud.

        progress  is called with the share (0 to 1) done since the last call
        stage     is called with the name of each stage that begins
        """
        start = time.perf_counter()
        advance = progress or (lambda share: None)
        begin = stage or (lambda name: None)
        selected = select(cloud, self.where)
        surface, plan = self._separate(cloud, begin)
        given, noise, found = surface.given, surface.noise, len(surface.outlier_rows)
        _LOG.info("%d points, %d outliers; noise %.4g; %s", len(cloud), found, noise.sigma, plan)
        passed, apart = self._run_passes(surface, plan, advance, begin)
        begin("limiting motion")
        with passed.remaining:
            rows, moved, held = self._settle(surface, passed, apart)
        if self.where is not None:
            leave_out(~selected, given.points, moved, held)
        if not plan.passes and is_implausible(cloud, noise):
            leave_out(np.ones(len(held), bool), given.points, moved, held, "implausible")
        uncertain = point_uncertainty(surface, passed, moved, held)
        result, shift = self._restore(cloud, surface, rows, moved, uncertain)
        lengths = fill_rows(np.empty(len(shift)), lambda part: np.linalg.norm(shift[part], axis=1))
        report = Report(
            points=len(cloud),
            points_out=len(result),
            outliers=found,
            noise_before=noise.sigma,
            noise_after=passed.noise.sigma,
            iterations=passed.iterations,
            partitions=plan.partitions,
            coarse_partitions=plan.coarse,
            mean_displacement=float(lengths.mean()),
            max_displacement=float(lengths.max()),
            held_back=count_held_back(held),
            seconds=time.perf_counter() - start,
            noise_kind=noise.kind,
        )
        _LOG.info("%s", report)
        return Denoised(result, report)

    def survey(
        self, search: NeighborSearch, level: float | Points | None = None
    ) -> tuple[Mask, Survey]:
        """`survey_cloud` with the plan that the options or the noise ask for."""
        return survey_cloud(search, level, self._plan, self.outliers != "keep")

    def find_outliers(
        self,
        search: NeighborSearch,
        survey: Survey,
        layout: Layout | None = None,
        far: Mask | None = None,
    ) -> Mask:
        """(U,): which points have no surface near them.

        far  (U,) those that are far from all others, if the survey saw all points

        Unless outliers are asked for, only isolated points are held back: a point of the surface
        that stays noisy does more harm than an outlier that moves.
        """
        if far is None:
            far = far_points(search, survey, None if layout is None else layout.thin)
        if layout is None:
            require_surface(int(np.count_nonzero(~far)))
        return far

    def _separate(self, cloud: PointCloud, begin: Stage) -> tuple[Surface, Plan]:
        """The surface of a cloud without its outliers, and the plan for it."""
        begin("finding neighbours")
        given, whole = normalise(cloud, merge=not is_large(len(cloud)))
        begin("measuring noise")
        layout = lay_out(given) if self.mode == "points" else None
        level = known_level(cloud, self.noise)
        if isinstance(level, np.ndarray):
            level = level[given.first_rows]
        far, survey = self._survey(whole, level, layout)
        outlier = self.find_outliers(whole, survey, layout, far)
        search = whole.subset(~outlier)
        noise = noise_of(search.points, survey, level, ~outlier)
        if layout is not None:
            layout = layout.take(~outlier)
        plan = survey.plan
        if level is None and self.mode == "points" and is_implausible(cloud, noise):
            plan = Plan(0, 1)
        return Surface(given, outlier, search, noise, layout), plan

    def _survey(
        self, search: NeighborSearch, level: float | Points | None, layout: Layout | None
    ) -> tuple[Mask | None, Survey]:
        """The survey of a cloud or of its sample; and its far points, if it saw all."""
        if layout is None or (layout.sampled is None and self.outliers == "keep"):
            return self.survey(search, level)
        if layout.sampled is not None:
            level = rows_of(level, layout.sampled)
        return None, self.survey(layout.sample(search), level)[1]

    def _plan(self, surface: NeighborSearch, noise: NoiseEstimate) -> Plan:
        """The passes and partitions that the caller or the noise asks for; none without noise."""
        if self.mode == "points" and self.iterations == "auto" and is_clean(noise):
            return Plan(0, 1)
        plan = Plan(1, 1)
        if "auto" in (self.iterations, self.partitions):
            size = self.model.config.patch_points
            plan = make_plan(surface, noise, size, self.model.inference)
        return plan.given(self.iterations, self.partitions).within(len(surface))

    def _run_passes(
        self, surface: Surface, plan: Plan, progress: Progress, stage: Stage
    ) -> tuple[Passed, NDArray[np.int64]]:
        """The surface after all passes, and the rows of the outliers that stay in the cloud."""
        given, apart = surface.given.points, surface.outlier_rows
        total = len(given)
        if self.outliers == "remove":
            total, apart = total - len(apart), apart[:0]
        count = self.points or total
        if self.mode == "resample":
            # Outliers are thinned as much as the surface.
            some = min(len(apart), count * len(apart) // len(given))
            apart = apart[farthest_point_sampling(given[apart], some)]
        return self.passes()(surface, plan, count - len(apart), progress, stage), apart

    def passes(self) -> Passes:
        """What makes passes through the network, with the network prepared."""
        return Passes(
            self.model,
            make_backend(self.model),
            Cutting(self.model.config.patch_points, self.overlap, self.radius),
            self.seed,
            self.mode,
            may_stop=self.iterations == "auto",
            with_spread=self.uncertainty,
        )

    def _settle(
        self, surface: Surface, passed: Passed, apart: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64] | slice, Points, NDArray[np.uint8]]:
        """Rows of the input that the result's points come from, their places (m, 3), and why they
        were held back (m,), as in `hold_back`.

        apart  rows of the outliers that stay

        Only mode "points" holds points back: resampled points have no place that they come from.
        """
        given, outlier = surface.given, surface.outlier
        if self.mode == "points":
            moved, held = given.different.copy(), np.zeros(len(outlier), np.uint8)
            moved[~outlier], held[~outlier] = self.limit(
                surface.search, passed.search, surface.noise, surface.layout, passed.reach
            )
            return slice(None), given.spread(moved), held[given.place]
        nearest = surface.search.knn(passed.points, 1)[1][:, 0]
        rows = np.concatenate([surface.first_rows[nearest], apart])
        moved = np.concatenate([passed.points, given.points[apart]])
        return rows, moved, np.zeros(len(rows), np.uint8)

    def limit(
        self,
        before: NeighborSearch,
        after: NeighborSearch,
        noise: NoiseEstimate,
        layout: Layout | None = None,
        reach: Points | None = None,
    ) -> tuple[Points, NDArray[np.uint8]]:
        """Points (m, 3) after all passes, and why they were held back (m,), as in `hold_back`.

        before  search of the points before the first pass; `noise` and `reach`, theirs
        after   search of the points after the last pass
        """
        clean = after.points
        probing, wanted = (layout.probes, layout.wanted) if layout else (None, None)
        # The limits were measured for our networks; the paper's move points differently.
        if self.model.inference.centred:
            clean = limit_tangential_motion(before.points, after, probing, wanted)
        size = self.model.config.patch_points
        return hold_back(before, clean, noise, self.max_move, size, reach, probing)

    def _restore(
        self,
        cloud: PointCloud,
        surface: Surface,
        rows: NDArray[np.int64] | slice,
        moved: Points,
        uncertain: Points | None,
    ) -> tuple[PointCloud, Points]:
        """The result in the cloud's own frame with its attributes, and how each point moved."""
        placed = surface.given.restore(cloud, rows, moved)
        given_points = cloud.points[rows]
        shift = fill_rows(np.empty_like(placed), lambda part: placed[part] - given_points[part])
        is_outlier = surface.outlier[surface.given.place[rows]]
        columns: dict[str, NDArray[Any]] = {}
        if self.displacement:
            columns["displacement"] = shift
        if uncertain is not None:
            columns["uncertainty"] = uncertain
        if self.outliers == "mark":
            columns["outlier"] = is_outlier.astype(np.uint8)
        taken = cloud if self.mode == "points" else without_row_metadata(cloud[rows])
        result = with_columns(taken.with_points(placed), columns)
        return result[~is_outlier] if self.outliers == "remove" else result, shift
