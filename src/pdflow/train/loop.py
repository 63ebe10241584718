"""The training loop: a step that can run as one CUDA graph, and checkpoints that resume it."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file

from pdflow.io import atomic_path
from pdflow.losses import joint_loss
from pdflow.model import PDFlow
from pdflow.train.data import PatchPool
from pdflow.train.recipe import Recipe

LOG_EVERY = 500
REPLAYS = 10
"""Steps between two looks at the clock on a GPU."""


class Trainer:
    """A network being trained: weights, their average, the optimiser and the random state."""

    def __init__(self, recipe: Recipe, pool: PatchPool, device: str) -> None:
        torch.manual_seed(recipe.optim.seed)
        self.recipe, self.pool, self.device = recipe, pool, torch.device(device)
        self.model = PDFlow(recipe.model).to(device).train()
        self.parameters = list(self.model.parameters())
        self.rate = torch.zeros((), device=device)
        self.optimizer = torch.optim.Adam(
            self.parameters,
            lr=self.rate,
            betas=recipe.optim.betas,
            fused=True,
            capturable=self.device.type == "cuda",
        )
        self.average = [p.detach().clone() for p in self.parameters]
        self.step_count = 0
        self.skipped = torch.zeros((), device=device)
        self.terms = torch.zeros(5, device=device)

    def step(self) -> None:
        """One step: batch, loss, gradient, clip, Adam, average. Free of looks at the device."""
        recipe = self.recipe
        batch = self.pool.sample(
            recipe.optim.batch,
            recipe.data.levels,
            recipe.data.scales,
            _fixed_radius(recipe),
            recipe.model.centred,
        )
        noisy = batch.noisy
        again = int(recipe.data.iterate * len(noisy))
        if again:
            with torch.no_grad():
                noisy = torch.cat([self.model.denoise_patches(noisy[:again]), noisy[again:]])
        loss = joint_loss(self.model, noisy, batch.clean, recipe.loss, sigma=batch.sigma)
        self.optimizer.zero_grad(set_to_none=True)
        loss.total.backward()
        norm = torch.nn.utils.clip_grad_norm_(self.parameters, recipe.optim.clip)
        bad = ~torch.isfinite(norm)
        for parameter in self.parameters:
            # A bad gradient counts as none; the guard works without asking the device.
            assert parameter.grad is not None
            parameter.grad.nan_to_num_(0, 0, 0).mul_(~bad)
        self.optimizer.step()
        with torch.no_grad():
            torch._foreach_lerp_(
                self.average, [p.detach() for p in self.parameters], 1 - recipe.optim.ema
            )
        self.skipped += bad
        self.terms.copy_(
            torch.stack([loss.total, loss.rec, loss.prior, loss.denoise, loss.chamfer]).detach()
        )

    def fit(self, minutes: float, log: Callable[[dict[str, Any]], None]) -> None:
        """Train until the recipe's last step, or until the minutes are over."""
        start = time.perf_counter()
        first = self.step_count
        run = self.step
        if self.device.type == "cuda":
            run = self._captured()
        while self.step_count < self.recipe.optim.steps:
            self.rate.fill_(learning_rate(self.step_count, self.recipe))
            run()
            self.step_count += 1
            if self.step_count % REPLAYS == 0 and self.device.type == "cuda":
                torch.cuda.synchronize()
            seconds = time.perf_counter() - start
            if self.step_count % LOG_EVERY == 0:
                log(self.state(seconds, self.step_count - first))
            if seconds > 60 * minutes:
                break

    def _captured(self) -> Callable[[], None]:
        """The step as a CUDA graph: one launch instead of hundreds."""
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                self.step()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.step()
        return graph.replay

    def state(self, seconds: float, steps: int) -> dict[str, Any]:
        """What a log line says."""
        total, rec, prior, denoise, chamfer = self.terms.tolist()
        return {
            "step": self.step_count,
            "loss": total,
            "rec": rec,
            "prior": prior,
            "denoise": denoise,
            "chamfer": chamfer,
            "rate": float(self.rate),
            "skipped": int(self.skipped),
            "patches_per_second": steps * self.recipe.optim.batch / max(seconds, 1e-9),
        }

    def averaged(self) -> PDFlow:
        """The network with averaged weights, ready to be saved."""
        model = PDFlow(self.recipe.model)
        model.load_state_dict(self.model.state_dict())
        with torch.no_grad():
            for parameter, average in zip(model.parameters(), self.average, strict=True):
                parameter.copy_(average)
        return model.eval()

    def save(self, path: Path) -> None:
        """Write a checkpoint from which training goes on as if it had never stopped."""
        tensors = {f"model.{k}": v for k, v in self.model.state_dict().items()}
        for i, average in enumerate(self.average):
            tensors[f"average.{i}"] = average
            for name, value in self.optimizer.state.get(self.parameters[i], {}).items():
                tensors[f"adam.{i}.{name}"] = value
        tensors["random"] = torch.get_rng_state()
        if self.device.type == "cuda":
            tensors["random.cuda"] = torch.cuda.get_rng_state()
        header = {"step": str(self.step_count), "recipe": json.dumps(self.recipe.as_dict())}
        with atomic_path(path) as temporary:
            save_file({k: v.detach().cpu().clone() for k, v in tensors.items()}, temporary, header)

    def resume(self, path: Path) -> None:
        """Go on from a checkpoint."""
        with safe_open(path, framework="pt") as file:
            tensors = {k: file.get_tensor(k) for k in file.keys()}  # noqa: SIM118
            self.step_count = int(file.metadata()["step"])
        model = {k.removeprefix("model."): v for k, v in tensors.items() if k.startswith("model.")}
        self.model.load_state_dict(model)
        for i, average in enumerate(self.average):
            average.copy_(tensors[f"average.{i}"])
            state = {
                k.rsplit(".", 1)[1]: v.to(self.device)
                for k, v in tensors.items()
                if k.startswith(f"adam.{i}.")
            }
            if state:
                self.optimizer.state[self.parameters[i]] = state
        torch.set_rng_state(tensors["random"])
        if "random.cuda" in tensors and self.device.type == "cuda":
            torch.cuda.set_rng_state(tensors["random.cuda"])


def learning_rate(step: int, recipe: Recipe) -> float:
    """Warm-up, then the recipe's schedule."""
    optim = recipe.optim
    warm = min(1.0, (step + 1) / max(1, optim.warmup))
    fall = 0.5 * (1 + math.cos(math.pi * step / optim.steps)) if optim.schedule == "cosine" else 1.0
    return optim.lr * warm * fall


def _fixed_radius(recipe: Recipe) -> float | None:
    low, high = recipe.model.patch_radius
    return low if low == high else None
