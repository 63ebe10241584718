"""The training loop: a step that can run as one CUDA graph, repeated until steps or time end."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from math import inf
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pdflow.config import NOISE_SHARE_AFTER_PASS
from pdflow.errors import PdflowError
from pdflow.model import PDFlow
from pdflow.train.compute.capture import Clock, captured
from pdflow.train.compute.distributed import DividedPDFlow, Workers, fill_, flattened
from pdflow.train.compute.precision import matmul_precision
from pdflow.train.compute.streams import Beside
from pdflow.train.data import Batch, PatchPool
from pdflow.train.initial import start_from
from pdflow.train.losses import joint_loss
from pdflow.train.recipe import Recipe
from pdflow.train.scans import ScanPool
from pdflow.train.schedule import Schedule
from pdflow.train.validation import Validation

LOG_EVERY = 500
"""Steps between two lines of the log, which hold the mean of their losses."""

EARLY_LINES = (1, 2, 5, 10, 20, 50, 100, 200)
"""Steps with a line before that, so that a run shows at once whether and how fast it learns."""

CLOCK_EVERY = 10
"""Steps on a GPU between two readings of the clock, each of which waits for steps before it."""

TERMS = ("loss", "rec", "prior", "denoise", "chamfer", "consistency")

Line = dict[str, Any]


class Trainer:
    """A network being trained: weights, their average, the optimiser and the random state.

    pool        the patches to train on
    scans       made scans that the recipe's share of each batch is cut from
    validation  patches of held-out shapes; without them nothing is validated
    init        weights to start from: a file or a shipped name
    workers     the processes that share the work, if there are several
    """

    def __init__(
        self,
        recipe: Recipe,
        pool: PatchPool,
        device: str,
        *,
        scans: ScanPool | None = None,
        validation: Validation | None = None,
        init: str | Path | None = None,
        workers: Workers | None = None,
    ) -> None:
        self.recipe, self.pool, self.device = recipe, pool, torch.device(device)
        self.scans = scans
        self.validation, self.workers = validation, workers or Workers()
        torch.manual_seed(recipe.optim.seed)
        configs = recipe.model, recipe.inference
        divided = self.workers.count > 1
        model = DividedPDFlow(*configs, self.workers) if divided else PDFlow(*configs)
        self.init_sha256 = None if init is None else start_from(model, init)
        self.model = model.to(device).train()
        self.parameters: list[Tensor] = list(self.model.parameters())
        self.running = [b for b in self.model.buffers() if b.is_floating_point()]
        self._initialise_norms()
        self.mean_model = deepcopy(self.model).requires_grad_(False).eval()
        self.averages: list[Tensor] = list(self.mean_model.parameters())

        self.schedule = Schedule(recipe.optim)
        self.rate = torch.zeros((), device=device)
        self.bad = torch.zeros((), device=device)
        self.optimizer = _skipping_adam(
            self.parameters, self.rate, self.bad, recipe.optim.betas, self.device
        )
        self.batch = self._draw()
        """What the next step trains on; it is drawn during the step before."""
        self.sums = torch.zeros(len(TERMS), device=device)
        self.counted = torch.zeros((), device=device)
        self.skipped = torch.zeros((), device=device)
        self.step_count = 0
        self.share = 0.0
        self.seconds = 0.0
        self.stop = False
        """Set it, from a signal handler for example, to end `fit` after the current step."""

    def fit(
        self,
        minutes: float = inf,
        *,
        anneal: bool = False,
        log: Callable[[Line], None] = lambda line: None,
        advance: Callable[[float], None] = lambda share: None,
    ) -> None:
        """Train until the recipe's last step, or until the minutes are over.

        anneal   let the schedule end with the minutes instead of with the recipe's steps
        log      gets the figures of the first steps, of every LOG_EVERY, and of each validation
        advance  gets the share of the run that was made since the last call
        """
        if anneal and minutes == inf:
            raise PdflowError("A schedule cannot end with the minutes without a number of them.")
        clock, limit, earlier = Clock(self.device), 60 * minutes, self.seconds
        over = (self.share if anneal else self._share_of_steps()) >= 1
        if over:
            return
        with matmul_precision(self.recipe.optim.precision):
            can_be_captured = self.device.type == "cuda" and self.recipe.loss.matching != "exact"
            step = (
                captured(self.step, self.tensors(), self.device) if can_be_captured else self.step
            )
            begun = seconds = clock.seconds()
            first_step, first_share = self.step_count, self.share
            while not over:
                self.rate.fill_(self.schedule.rate(self.step_count, self.share))
                step()
                self.step_count += 1
                if self.device.type == "cpu" or self.step_count % CLOCK_EVERY == 0:
                    seconds, stop = self.workers.agree([clock.seconds(), self.stop], self.device)
                    self.seconds = earlier + seconds
                    over = bool(stop) or seconds >= limit
                share = self._share_of_steps()
                if anneal:
                    passed = (seconds - begun) / max(limit - begun, 1e-9)
                    share = first_share + (1 - first_share) * min(passed, 1.0)
                advance(share - self.share)
                self.share = share
                over = over or share >= 1
                early = self.step_count in EARLY_LINES
                if early or self.step_count % LOG_EVERY == 0 or over:
                    log(self._line((self.step_count - first_step) / max(seconds - begun, 1e-9)))
                if self.validation and self.validation.is_due(self.step_count, over):
                    log(self._validate(self.validation))

    def step(self) -> None:
        """One step: loss, gradient, clip, Adam, average, next batch. It never waits for the device.

        A gradient that is not finite changes nothing but the batch and the count of skipped steps.
        """
        with Beside(self.pool.surroundings) as drawing:
            drawn = self._draw().tensors().values()
        before = flattened(self.running) if self.running else None
        terms = self._loss(self.workers.part(self.batch))
        self.optimizer.zero_grad(set_to_none=True)
        terms[0].backward()
        self.workers.average_([p.grad for p in self.parameters if p.grad is not None])
        norm = torch.nn.utils.clip_grad_norm_(self.parameters, self.recipe.optim.clip)
        good = torch.isfinite(norm)
        self.bad.copy_(~good)
        self.optimizer.step()
        with torch.no_grad():
            moves = torch._foreach_sub(self.parameters, self.averages)
            torch._foreach_mul_(moves, good * (1 - self.recipe.optim.ema))
            torch._foreach_add_(self.averages, list(moves))
            if before is not None:
                fill_(self.running, torch.where(good, flattened(self.running), before))
            self.sums += torch.where(good, terms, 0.0)
            self.counted += good
            self.skipped += self.bad
            drawing.join(*drawn)
            torch._foreach_copy_(list(self.batch.tensors().values()), list(drawn))

    def _draw(self) -> Batch:
        data, inference = self.recipe.data, self.recipe.inference
        radius, centred = inference.fixed_radius, inference.centred
        from_scans = round(data.scans * self.recipe.optim.batch) if self.scans else 0
        batch = self.pool.sample(
            self.recipe.optim.batch - from_scans,
            data.levels,
            data.scales,
            kinds=data.noise,
            deform=data.deform,
            bend=data.bend,
            cut=data.cut,
            pairs=self.recipe.loss.consistency > 0,
            radius=radius,
            centred=centred,
        )
        if not self.scans or not from_scans:
            return batch
        scans = self.scans.sample(from_scans, data.scan_levels, radius=radius, centred=centred)
        return batch.join(scans)

    def _loss(self, batch: Batch) -> Tensor:
        """The loss and its terms, in the order of TERMS."""
        noisy, pairs, conditioning = batch.noisy, batch.pairs, self._conditioning(batch.sigma)
        again = self.workers.own_rows(int(self.recipe.data.iterate * self.recipe.optim.batch))
        if again:
            with torch.no_grad():
                passed = self.model.denoise_patches(noisy[:again], sigma=conditioning[:again])
            # The graph needs finite points, whatever the network made of them.
            passed = torch.where(torch.isfinite(passed), passed, noisy[:again])
            noisy = torch.cat([passed, noisy[again:]])
            less = NOISE_SHARE_AFTER_PASS * conditioning[:again]
            conditioning = torch.cat([less, conditioning[again:]])
            pairs = pairs and pairs.from_patch(again)
        loss = joint_loss(
            self.model,
            noisy,
            batch.clean,
            self.recipe.loss,
            sigma=batch.sigma,
            conditioning=conditioning,
            pairs=pairs,
            seeds=batch.noisy[:, :1],
            weight=batch.weight,
        )
        terms = (loss.total, loss.rec, loss.prior, loss.denoise, loss.chamfer, loss.consistency)
        return torch.stack(terms)

    def _conditioning(self, sigma: Tensor) -> Tensor:
        """(B,): the noise as it might be estimated, which a network may be conditioned on."""
        spread = self.recipe.data.conditioning_spread
        return sigma * torch.exp(spread * torch.randn_like(sigma)) if spread else sigma

    def averaged(self) -> PDFlow:
        """The network with averaged weights; it follows further steps."""
        for mine, theirs in zip(self.mean_model.buffers(), self.model.buffers(), strict=True):
            mine.copy_(theirs)
        return self.mean_model

    def tensors(self) -> dict[str, Tensor]:
        """Everything on the device that later steps depend on, by name; not copies."""
        named = {f"model.{name}": value for name, value in self.model.state_dict().items()}
        named |= {f"average.{name}": value for name, value in self.mean_model.named_parameters()}
        for name, parameter in self.model.named_parameters():
            for moment, value in self.optimizer.state[parameter].items():
                named[f"adam.{name}.{moment}"] = value
        named |= {f"batch.{name}": value for name, value in self.batch.tensors().items()}
        return named | {"sums": self.sums, "counted": self.counted, "skipped": self.skipped}

    @torch.no_grad()
    def _initialise_norms(self) -> None:
        """Let fresh activation norms learn from a whole batch, the same in every process."""
        batch = self._draw()
        eps = PDFlow.sample_eps(self.model, batch.noisy)
        with matmul_precision(self.recipe.optim.precision):
            self.model.encode(batch.noisy, self.model.graph(batch.noisy), eps, batch.sigma)

    def _share_of_steps(self) -> float:
        return self.step_count / self.recipe.optim.steps

    def _line(self, steps_per_second: float) -> Line:
        """The figures of the steps since the last line."""
        means = self.sums / self.counted.clamp_min(1)
        self.workers.average_([means])
        line = {
            "step": self.step_count,
            "share": self.share,
            "seconds": self.seconds,
            **dict(zip(TERMS, means.tolist(), strict=True)),
            "rate": float(self.rate),
            "skipped": int(self.skipped),
            "patches_per_second": steps_per_second * self.recipe.optim.batch,
        }
        self.sums.zero_()
        self.counted.zero_()
        return line

    def _validate(self, validation: Validation) -> Line:
        figures = validation.measure(self.averaged())
        agreed = self.workers.agree(list(figures.values()), self.device)
        figures = dict(zip(figures, agreed, strict=True))
        self.schedule.observe(figures["validation"])
        return {"step": self.step_count, "seconds": self.seconds, **figures}


def _skipping_adam(
    parameters: list[Tensor],
    rate: Tensor,
    bad: Tensor,
    betas: tuple[float, float],
    device: torch.device,
) -> torch.optim.Adam:
    """Adam that does nothing in a step while the scalar `bad` is 1; `rate` is the learning rate."""
    adam = torch.optim.Adam(
        parameters, lr=rate, betas=betas, fused=True, capturable=device.type == "cuda"
    )
    # Where this tensor is 1, fused Adam leaves weights, moments and its count as they are.
    adam.found_inf = bad  # type: ignore[attr-defined]
    # A skipped step makes the moments, so that they can be saved and loaded at any time.
    bad.fill_(1)
    for parameter in parameters:
        parameter.grad = torch.zeros_like(parameter)
    adam.step()
    return adam
