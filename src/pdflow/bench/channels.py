"""Which channels of a latent code hold the noise, and how many of them have to go.

A noisy patch and its clean twin are encoded. The energy of a channel is the mean square of its
values, its noise energy the mean square of the difference between the two codes. Then channels are
taken out of the noisy code one by one, and it is decoded. The first are those with the most noise
energy for their clean energy: they hold little else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pdflow import patches
from pdflow.errors import PdflowError
from pdflow.lazy import require
from pdflow.metrics import sq_chamfer
from pdflow.model import PDFlow
from pdflow.patches import PatchBatch

Points = NDArray[np.float64]
PATCHES = 4
"""Patches of a cloud that are encoded, around rows at equal distances."""


@dataclass(frozen=True)
class Channel:
    """A channel of a code, in the order of noise energy over clean energy.

    clean     energy in the codes of clean patches
    noisy     energy in the codes of noisy patches
    noise     energy of the difference
    masked    CD that is left, relative to the noisy patches, when this channel and all before it
              are set to zero
    filtered  the same when they get the values that the network's own filter gives them
    """

    channel: int
    clean: float
    noisy: float
    noise: float
    masked: float
    filtered: float


def channel_experiment(model: PDFlow, noisy: Points, clean: Points) -> list[Channel]:
    """All channels by their share of noise, from a cloud (M, 3) and the same rows without noise."""
    if noisy.shape != clean.shape:
        raise PdflowError(
            f"The noisy cloud has {len(noisy)} points and the clean one {len(clean)}: give two "
            "clouds with the same rows."
        )
    batch = patches.cut(model, noisy, seeds=np.linspace(0, len(noisy) - 1, PATCHES).astype(int))
    assert batch.origin is not None
    twin = patches.given(model, batch.origin.frames.cut(clean, batch.rows), batch.sigma)
    code, target = (patches.encode(model, each).code for each in (batch, twin))
    with_clean, with_noisy, noise = (_energy(each) for each in (target, code, code - target))
    order = np.argsort(-noise / np.maximum(with_clean, np.finfo(float).tiny))
    masked = _cd_left(model, code, torch.zeros_like(code), batch, twin, order)
    filtered = _cd_left(model, code, patches.filter_code(model, code), batch, twin, order)
    return [
        Channel(int(c), float(with_clean[c]), float(with_noisy[c]), float(noise[c]), *left)
        for c, *left in zip(order, masked, filtered, strict=True)
    ]


def _energy(code: Tensor) -> NDArray[np.float64]:
    """(D,): mean squares of the channels of codes (B, N, D)."""
    return code.double().square().mean((0, 1)).cpu().numpy()


def _cd_left(
    model: PDFlow,
    code: Tensor,
    instead: Tensor,
    batch: PatchBatch,
    twin: PatchBatch,
    order: NDArray[np.int64],
) -> list[float]:
    """CD relative to the noisy patches, after one channel of `order`, two, ... is `instead`."""
    before = _chamfers(batch.points, twin.points)
    changed, left = code.clone(), []
    for channel in order:
        changed[..., channel] = instead[..., channel]
        after = _chamfers(patches.decode(model, changed, batch), twin.points)
        left.append(float((after / before).mean()))
    return left


def _chamfers(points: Tensor, clean: Tensor) -> NDArray[np.float64]:
    """(B,): squared chamfer distances of patches (B, N, 3); infinite where decoding overflowed."""
    pairs = zip(*(each.double().cpu().numpy() for each in (points, clean)), strict=True)
    return np.array([sq_chamfer(p, c) if np.isfinite(p).all() else np.inf for p, c in pairs])


def draw_channels(channels: Sequence[Channel], path: Path) -> None:
    """Energies by channel, and CD over the number of channels taken out, as PNG or PDF."""
    from pdflow.bench.figures import save_undated

    figures = require("matplotlib.figure", extra="train", purpose="Drawing energies")
    figure = figures.Figure(figsize=(9, 3.4), layout="constrained")
    energies, cds = figure.subplots(1, 2)
    count = range(1, len(channels) + 1)
    for name in ("clean", "noisy", "noise"):
        label = "difference" if name == "noise" else f"{name} code"
        energies.semilogy(count, [getattr(each, name) for each in channels], label=label)
    energies.set_xlabel("channel, by noise over clean energy")
    energies.set_ylabel("energy")
    for name, label in (("masked", "set to zero"), ("filtered", "filtered")):
        values = [1.0, *(getattr(each, name) for each in channels)]
        cds.plot(range(len(values)), values, label=label)
    cds.set_xlabel("channels taken out")
    cds.set_ylabel("CD / CD of the noisy patch")
    cds.set_ylim(0, 1.5)
    for axes in (energies, cds):
        axes.grid(alpha=0.3)
        axes.legend(fontsize="small")
    save_undated(figure, path)
