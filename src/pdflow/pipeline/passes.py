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
        search: NeighborSearch,
        noise: NoiseEstimate,
        plan: Plan,
        count: int,
        progress: Progress,
        stage: Stage = lambda name: None,
        layout: Layout | None = None,
    ) -> Passed:
        """Make the passes of a plan.

        count   points of the result if it is resampled
        stage   is called with the name of each pass
        layout  of the points of a large cloud, which is not resampled
        """
        if self.mode == "resample":
            return self._make_passes(search, noise, plan, count, progress, stage, layout)
        with Deferred(lambda: reach_of(search)) as reach:
            passed = self._make_passes(search, noise, plan, count, progress, stage, layout, reach)
            return replace(passed, reach=reach.result())

    def _make_passes(
        self,
        search: NeighborSearch,
        noise: NoiseEstimate,
        plan: Plan,
        count: int,
        progress: Progress,
        stage: Stage,
        layout: Layout | None,
        beside: Deferred[Any] | None = None,
    ) -> Passed:
        """The passes of a plan; `beside` begins when the network does."""
        after, done = Deferred(lambda: noise), 0
        sq_spread = np.zeros(len(search)) if self.with_spread else None
        resampled = self.mode == "resample"
        while done < plan.passes:
            stage(f"pass {done + 1} of {plan.passes}")
            # Only the last pass resamples: averaging patches is more accurate than picking single
            # predictions. An earlier pass resamples only to add points, which helps the next one.
            sampled = resampled and (done == plan.passes - 1 or count > len(search))
            wanted = max(count, len(search)) if sampled else None
            share = scaled(progress, 1 / plan.passes)
            points = self.one_pass(
                search, noise, plan, done, share, wanted, layout, sq_spread, beside
            )
            done += 1
            search = NeighborSearch(points)
            after = Deferred(partial(_remaining_noise, search, layout, f"{done} of {plan.passes}"))
            if done == plan.passes:
                after.begin()
            elif self.converged(noise, after.result()) and not resampled:
                break
        if done < plan.passes:
            progress((plan.passes - done) / plan.passes)
        points = search.points
        if resampled and count < len(points):
            points = points[farthest_point_sampling(search, count)]
        spread = None if sq_spread is None else np.sqrt(sq_spread)
        return Passed(points, search, after, done, spread)

    def converged(self, before: NoiseEstimate, after: NoiseEstimate) -> bool:
        """Whether so little of the noise remains that no further pass is made."""
        return self.may_stop and after.sigma <= CONVERGED * before.sigma

    def one_pass(
        self,
        search: NeighborSearch,
        noise: NoiseEstimate,
        plan: Plan,
        done: int,
        progress: Progress,
        count: int | None = None,
        layout: Layout | None = None,
        sq_spread: NDArray[np.float64] | None = None,
        beside: Deferred[Any] | None = None,
    ) -> NDArray[np.float64]:
        """All points after one pass: resampled to `count` points, or row by row if None.

        Arguments are those of `answers`.
        """
        given = self.answers(search, noise, plan, done, progress, count, layout, sq_spread, beside)
        if len(given) == 1:
            return given[0]
        fine, coarse = given
        return blend(search.points, fine, coarse, noise, plan, layout)

    def answers(
        self,
        search: NeighborSearch,
        noise: NoiseEstimate,
        plan: Plan,
        done: int,
        progress: Progress,
        count: int | None = None,
        layout: Layout | None = None,
        sq_spread: NDArray[np.float64] | None = None,
        beside: Deferred[Any] | None = None,
    ) -> list[NDArray[np.float64]]:
        """The points after one pass at each scale that the plan asks for, finest first.

        done       passes of the plan that were made before
        count      points that the pass resamples to, at one scale; None keeps rows
        layout     of the points of a large cloud; those that it does not want may stay
        sq_spread  (M,) to which the squared disagreement of patches is added
        beside     begins when the network does
        """
        scales = [plan.partitions if done == 0 else 1]
        if done == 0 and plan.coarse and count is None:
            scales.append(plan.coarse)
        scale = conditioning_scale(self.model.inference, done, plan)
        share = scaled(progress, 1 / len(scales))
        noted = None if sq_spread is None else np.zeros(len(sq_spread))
        conditioning = Conditioning(noise, scale)
        given = [
            self._at_scale(search, conditioning, partitions, share, count, layout, noted, beside)
            for partitions in scales
        ]
        if sq_spread is not None and noted is not None:
            sq_spread += noted / len(scales)
        return given

    def _at_scale(
        self,
        search: NeighborSearch,
        conditioning: Conditioning,
        partitions: int,
        progress: Progress,
        count: int | None,
        layout: Layout | None,
        sq_spread: NDArray[np.float64] | None,
        beside: Deferred[Any] | None,
    ) -> NDArray[np.float64]:
        """All partitions after one pass."""
        results, rows = [], []
        for part, part_rows, part_count in _partitions(search, partitions, count, layout):
            part_layout = layout
            if layout is not None and partitions > 1:
                part_layout = layout.take(part_rows)
            for piece in cut_pieces(part, self.cutting, part_count, part_layout):
                share = scaled(progress, len(piece.rows) / len(part) / partitions)
                noted = None if sq_spread is None else np.zeros(len(piece.rows))
                results.append(self._denoise(piece, conditioning, share, noted, beside))
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
        self,
        piece: Piece,
        conditioning: Conditioning,
        progress: Progress,
        sq_spread: NDArray[np.float64] | None,
        beside: Deferred[Any] | None,
    ) -> NDArray[np.float64]:
        """Patch, flow, filter, inverse, stitch; too few points stay where they are.

        sq_spread  (n,) receives the squared disagreement of patches
        beside     begins when the network does
        """
        points, patches, layout = piece.search.points, piece.patches, piece.layout
        if patches is None or not len(patches):
            progress(1.0)
            return points
        frames = network_frames(self.model, points, patches, layout)
        names = None if layout is None else layout.rows[patches.seeds]
        cut = frames.cut(points, patches.rows)
        if beside is not None:
            beside.begin()
        clean = self.backend.run(
            cut,
            None if self.seed is None else EpsDraws(self.seed, names),
            conditioning_noise(self.model, conditioning.at(points[patches.seeds]), frames),
            lambda done: progress(done / len(patches)),
        )
        moved = frames.undo(clean)
        if layout is not None and layout.wanted is not None:
            stitched = blend_held(points, patches, moved, BLEND_SHARPNESS)
        else:
            stitch = STITCHERS["points" if piece.count is None else self.mode]
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
) -> NDArray[np.float64]:
    """Points (M, 3) between the two answers of a first pass, as a plan asks for."""
    sigma, search = noise_around(noise, noisy), NeighborSearch(fine)
    local = () if layout is None else (layout.probes, layout.wanted)
    return blend_scales(noisy, search, coarse, sigma, plan.bounds, *local)


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
