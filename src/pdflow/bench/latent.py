"""The supplement's experiment on latent space: what kept and masked channels do to a patch.

A fixed mask splits a code into z_p, which is kept, and z_n, which is replaced by z_c = 0. Four
codes are decoded; o adds `delta` to every channel:

    [z_p, z_n]       the noisy patch, because the flow is invertible
    [z_p, z_c]       the denoised patch
    [z_p + o, z_c]   in the paper: all points shifted alike
    [z_p, z_c + o]   in the paper: each point moved in its own way
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pdflow import patches
from pdflow.errors import PdflowError
from pdflow.model import PDFlow
from pdflow.patches import PatchBatch
from pdflow.weights import load_model, released_models

Points = NDArray[np.float64]
CODES = ("[z_p, z_n]", "[z_p, z_c]", "[z_p + o, z_c]", "[z_p, z_c + o]")


@dataclass(frozen=True)
class Decoded:
    """A patch (N, 3) decoded from a code, in the cloud's frame.

    moved   root mean square distance to another patch, in patch radii: the noisy patch for the
            first two codes, the denoised one for the others
    common  share of `moved` that is common to all points: 1 is a pure shift
    """

    code: str
    points: Points
    moved: float
    common: float


def masked_model(name: str | None) -> PDFlow:
    """The named model, or the first shipped one whose filter is a mask."""
    if name is not None:
        model = load_model(name)
        if not _has_mask(model):
            raise PdflowError(
                f"The filter of {name} is {model.config.filter!r}, which does not split a code: "
                "choose a model with a fixed mask (fbm)."
            )
        return model
    for released in released_models():
        model = load_model(released)
        if _has_mask(model):
            return model
    raise PdflowError("No shipped model has a mask as its filter: name one with --model.")


def _has_mask(model: PDFlow) -> bool:
    return model.config.filter == "fbm" and 0 < model.config.masked_dims < model.config.channels


def latent_experiment(
    model: PDFlow, cloud: Points, seed_row: int = 0, delta: float = 1.0
) -> list[Decoded]:
    """The four patches around row `seed_row` of a cloud (M, 3), by a model with a mask."""
    batch = patches.cut(model, cloud, seeds=[seed_row])
    noisy = cloud[batch.rows[0]]
    decoded = [batch.restore(points)[0] for points in _decode_all(model, batch, delta)]
    radius = float(np.linalg.norm(noisy - cloud[seed_row], axis=1).max())
    compared = [noisy, noisy, decoded[1], decoded[1]]
    return [
        _compare(code, points, other, radius)
        for code, points, other in zip(CODES, decoded, compared, strict=True)
    ]


def _decode_all(model: PDFlow, batch: PatchBatch, delta: float) -> list[Tensor]:
    """Patches (1, N, 3) of the four codes of a noisy patch, in the network's frame."""
    code = patches.encode(model, batch).code
    kept = model.config.channels - model.config.masked_dims
    z_p, z_n = code[..., :kept], code[..., kept:]
    z_c = torch.zeros_like(z_n)
    codes: list[tuple[Tensor, Tensor]] = [
        (z_p, z_n),
        (z_p, z_c),
        (z_p + delta, z_c),
        (z_p, z_c + delta),
    ]
    return [patches.decode(model, torch.cat(each, -1), batch) for each in codes]


def _compare(code: str, points: Points, other: Points, radius: float) -> Decoded:
    offsets = (points - other) / radius
    moved = float(np.sqrt((offsets**2).sum(1).mean()))
    common = float(np.linalg.norm(offsets.mean(0))) / moved if moved > 0 else 0.0
    return Decoded(code, points, moved, common)
