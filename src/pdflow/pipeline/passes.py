"""Passes through the network: patch, run, stitch, until the plan or the noise is done."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdflow.backends import Backend, Progress
from pdflow.backends.draws import EpsDraws
from pdflow.geometry.farthest import farthest_point_sampling
from pdflow.geometry.neighbors import NeighborSearch
from pdflow.geometry.partition import interleave
from pdflow.geometry.stitch import STITCHERS, blend_held, sq_disagreement
from pdflow.model import PDFlow
from pdflow.noise.estimate import NoiseEstimate, estimate_remaining
from pdflow.parallel import Deferred
from pdflow.pipeline.large import Layout
from pdflow.pipeline.patching import Cutting, Piece, conditioning_noise, cut_pieces, network_frames
from pdflow.pipeline.plan import Conditioning, Plan, conditioning_scale
from pdflow.pipeline.progress import Stage, scaled
from pdflow.pipeline.restraint import noise_around, reach_of
from pdflow.pipeline.scales import blend_scales
from pdflow.pipeline.surface import Surface

_LOG = logging.getLogger(__name__)

BLEND_SHARPNESS = 8.0
"""Of the weights of patches when they are stitched."""

CONVERGED = 0.02
"""Noise that remains, as a share of the initial noise, below which no further pass is made."""


@dataclass(frozen=True)
class Passed:
    """A surface after all passes.

    points      (count, 3)
    search      of the points of the last pass, of which `points` may be some
    remaining   what measures the noise that remains; nothing but a report waits for it
    iterations  passes that were made
    spread      (M,) root mean square distance of the patches' answers from their mean; None if
                it was not measured
    reach       (M,) of the points before the first pass (`reach_of`); None if they are resampled
    """

    points: NDArray[np.float64]
    search: NeighborSearch
    remaining: Deferred[NoiseEstimate]
    iterations: int
    spread: NDArray[np.float64] | None = None
    reach: NDArray[np.float64] | None = None

    @property
    def noise(self) -> NoiseEstimate:
        """The noise that remains."""
        return self.remaining.result()


@dataclass(frozen=True)
class Passes:
    """How a surface goes through a network.

    model       the network, and `backend`, the same made ready to run
    cutting     how it is cut into patches
    seed        of the draws of eps; None takes eps = 0
    mode        how the last pass is stitched: a key of STITCHERS
    may_stop    whether to stop early once the noise is below CONVERGED
    with_spread whether to measure how much patches disagree, if points keep their rows
    """

    model: PDFlow
    backend: Backend
    cutting: Cutting
    seed: int | None
    mode: str
    may_stop: bool
    with_spread: bool = False

    def __call__(
        self,
        surface: Surface,
        plan: Plan,
        count: int,
        progress: Progress,
        stage: Stage = lambda name: None,
    ) -> Passed:
        """Make the passes of a plan.

        count   points of the result if it is resampled; large clouds are not
        stage   is called with the name of each pass
        """
        search = surface.search
        sq_spread = np.zeros(len(search)) if self.with_spread else None
        first = Pass(self, search, surface.noise, plan, 0, surface.layout, sq_spread)
        if self.mode == "resample":
            return self._make_passes(first, count, progress, stage)
        with Deferred(lambda: reach_of(search)) as reach:
            passed = self._make_passes(replace(first, beside=reach), count, progress, stage)
            return replace(passed, reach=reach.result())

    def _make_passes(self, current: Pass, count: int, progress: Progress, stage: Stage) -> Passed:
        """All passes of a plan, of which `current` is the first."""
        search, noise, plan = current.search, current.noise, current.plan
        after, done = Deferred(lambda: noise), 0
        resampled = self.mode == "resample"
        while done < plan.passes:
            stage(f"pass {done + 1} of {plan.passes}")
            current = replace(current, search=search, done=done)
            # Only the last pass resamples: averaging patches is more accurate than picking single
            # predictions. An earlier pass resamples only to add points, which helps the next one.
            sampled = resampled and (done == plan.passes - 1 or count > len(search))
            wanted = max(count, len(search)) if sampled else None
            search = current.moved(wanted, scaled(progress, 1 / plan.passes))
            done += 1
            made = f"{done} of {plan.passes}"
            after = Deferred(partial(_remaining_noise, search, current.layout, made))
            if done == plan.passes:
                after.begin()
            elif self.converged(noise, after.result()) and not resampled:
                break
        if done < plan.passes or not plan.passes:
            progress(1 - done / max(1, plan.passes))
        points = search.points
        if resampled and count < len(points):
            points = points[farthest_point_sampling(search, count)]
        spread = None if current.sq_spread is None else np.sqrt(current.sq_spread)
        return Passed(points, search, after, done, spread)

    def converged(self, before: NoiseEstimate, after: NoiseEstimate) -> bool:
        """Whether so little of the noise remains that no further pass is made."""
        return self.may_stop and after.sigma <= CONVERGED * before.sigma


@dataclass(frozen=True)
class Pass:
    """One pass of a plan over a surface.

    passes     how a surface goes through the network
    search     of the points before this pass
    noise      of the points before the first pass
    plan       of all passes, of which `done` were made before this one
    layout     of the points of a large cloud; those that it does not want may stay
    sq_spread  (M,) to which the squared disagreement of patches is added
    beside     begins when the network does
    """

    passes: Passes
    search: NeighborSearch
    noise: NoiseEstimate
    plan: Plan
    done: int
    layout: Layout | None = None
    sq_spread: NDArray[np.float64] | None = None
    beside: Deferred[Any] | None = None

    def moved(
        self, count: int | None = None, progress: Progress = lambda share: None
    ) -> NeighborSearch:
        """Search of all points after this pass: resampled to `count`, or row by row if None."""
        given = self.answers(count, progress)
        if len(given) == 1:
            return NeighborSearch(given[0])
        fine, coarse = given
        return blend(self.search.points, fine, coarse, self.noise, self.plan, self.layout)

    def answers(
        self, count: int | None = None, progress: Progress = lambda share: None
    ) -> list[NDArray[np.float64]]:
        """The points after this pass at each scale that the plan asks for, finest first.

        count  points that the pass resamples to, at one scale; None keeps rows
        """
        scales = [self.plan.partitions if self.done == 0 else 1]
        if self.done == 0 and self.plan.coarse and count is None:
            scales.append(self.plan.coarse)
        noted = None if self.sq_spread is None else np.zeros(len(self.sq_spread))
        share = scaled(progress, 1 / len(scales))
        given = [self._at_scale(partitions, count, share, noted) for partitions in scales]
        if self.sq_spread is not None and noted is not None:
            np.add(self.sq_spread, noted / len(scales), out=self.sq_spread)
        return given

    @property
    def conditioning(self) -> Conditioning:
        """What the patches of this pass are conditioned on."""
        scale = conditioning_scale(self.passes.model.inference, self.done, self.plan)
        return Conditioning(self.noise, scale)

    def _at_scale(
        self,
        partitions: int,
        count: int | None,
        progress: Progress,
        sq_spread: NDArray[np.float64] | None,
    ) -> NDArray[np.float64]:
        """All partitions after this pass."""
        results, rows = [], []
        parts = _partitions(self.search, partitions, count, self.layout)
        for part, part_rows, part_count in parts:
            layout = self.layout
            if layout is not None and partitions > 1:
                layout = layout.take(part_rows)
            for piece in cut_pieces(part, self.passes.cutting, part_count, layout):
                share = scaled(progress, len(piece.rows) / len(part) / partitions)
                noted = None if sq_spread is None else np.zeros(len(piece.rows))
                results.append(self._denoise(piece, share, noted))
                rows.append(part_rows[piece.rows])
                if sq_spread is not None and noted is not None:
                    sq_spread[rows[-1]] += noted
        if len(results) == 1:
            return results[0]
        moved = np.concatenate(results)
        if count is not None:
            return moved
        ordered = np.empty_like(moved)
        ordered[np.concatenate(rows)] = moved
        return ordered

    def _denoise(
        self, piece: Piece, progress: Progress, sq_spread: NDArray[np.float64] | None
    ) -> NDArray[np.float64]:
        """Patch, flow, filter, inverse, stitch; too few points stay where they are.

        sq_spread  (n,) receives the squared disagreement of patches
        """
        points, patches, layout = piece.search.points, piece.patches, piece.layout
        if patches is None or not len(patches):
            progress(1.0)
            return points
        passes, model = self.passes, self.passes.model
        frames = network_frames(model, points, patches, layout)
        names = None if layout is None else layout.rows[patches.seeds]
        if self.beside is not None:
            self.beside.begin()
        clean = passes.backend.run(
            frames.cut(points, patches.rows, np.float32),
            None if passes.seed is None else EpsDraws(passes.seed, names),
            conditioning_noise(model, self.conditioning.at(points[patches.seeds]), frames),
            lambda done: progress(done / len(patches)),
        )
        moved = frames.undo(clean)
        del clean  # as large as `moved`, and needed no more
        if layout is not None and layout.wanted is not None:
            stitched = blend_held(points, patches, moved, BLEND_SHARPNESS)
        else:
            stitch = STITCHERS["points" if piece.count is None else passes.mode]
            count = len(points) if piece.count is None else piece.count
            stitched = stitch(piece.search, patches, moved, count, BLEND_SHARPNESS)
        if sq_spread is not None:
            sq_spread += sq_disagreement(patches, moved, stitched, BLEND_SHARPNESS)
        return stitched


def _remaining_noise(search: NeighborSearch, layout: Layout | None, made: str) -> NoiseEstimate:
    """The noise after a pass; `made` says which one."""
    after = estimate_remaining(search if layout is None else layout.sample(search))
    _LOG.info("pass %s: noise %.4g remains", made, after.sigma)
    return after


def blend(
    noisy: NDArray[np.float64],
    fine: NDArray[np.float64],
    coarse: NDArray[np.float64],
    noise: NoiseEstimate,
    plan: Plan,
    layout: Layout | None = None,
) -> NeighborSearch:
    """Search of points between the two answers (M, 3) of a first pass, as a plan asks for."""
    sigma, search = noise_around(noise, noisy), NeighborSearch(fine)
    local = () if layout is None else (layout.probes, layout.wanted)
    return search.moved(blend_scales(noisy, search, coarse, sigma, plan.bounds, *local))


def _partitions(
    search: NeighborSearch, partitions: int, count: int | None, layout: Layout | None
) -> Iterator[tuple[NeighborSearch, NDArray[np.int64], int | None]]:
    """The search of each partition, its rows, and the points that it is resampled to."""
    if partitions == 1:
        yield search, np.arange(len(search)), count
        return
    shares: list[int | None] = [None] * partitions
    if count is not None:
        shares = np.diff(np.linspace(0, count, partitions + 1).round().astype(int)).tolist()
    local = () if layout is None else (layout.cells, layout.grid)
    parts = interleave(search.points, partitions, *local)
    for rows, share in zip(parts, shares, strict=True):
        yield NeighborSearch(search.points[rows]), rows, share
