"""Start from the weights of another run, possibly with another filter."""

from __future__ import annotations

import hashlib
from pathlib import Path

import torch
from torch import Tensor

from pdflow.errors import PdflowError
from pdflow.model import PDFlow
from pdflow.weights import find_model, load_model


@torch.no_grad()
def start_from(model: PDFlow, name_or_path: str | Path) -> str:
    """Give `model` the weights of a file or shipped model; returns the SHA-256 of that file.

    The filters may differ: `Filter.start_from` says which combinations work. If only `model` has
    noise conditioning, its noise channel starts with zero weights. All other tensors must have
    the same names and shapes.
    """
    path = find_model(name_or_path)
    source = load_model(path)
    theirs, ours = _without_filter(source), _without_filter(model)
    if model.config.noise_conditioning and not source.config.noise_conditioning:
        theirs = _with_zero_weight_channel(theirs, model.config.point_dims)
    for name in sorted(theirs.keys() | ours.keys()):
        here, there = (str(tuple(t[name].shape)) if name in t else "none" for t in (ours, theirs))
        if here != there:
            raise PdflowError(
                f"{path}: tensor {name} is {there} there and {here} in the recipe's network: "
                "start from weights of a network that differs in the filter and in "
                "noise_conditioning at most."
            )
    model.load_state_dict(theirs, strict=False)
    try:
        model.filter.start_from(source.filter)
    except PdflowError as error:
        raise PdflowError(f"{path}: {error}") from error
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _without_filter(model: PDFlow) -> dict[str, Tensor]:
    return {k: v for k, v in model.state_dict().items() if not k.startswith("filter.")}


def _with_zero_weight_channel(tensors: dict[str, Tensor], place: int) -> dict[str, Tensor]:
    """Weights of a graph condition net with one more input channel, whose weights are zero.

    place  index of the new channel: the noise follows the coordinates of a point
    """
    wider = dict(tensors)
    units, last = "augmentation.condition.units.", "augmentation.condition.last.weight"
    for name, weight in tensors.items():
        if name.startswith(units) and name.endswith("first.weight"):
            parts = [_insert_zeros(part, 1, place) for part in weight.chunk(3, dim=1)]
            wider[name] = torch.cat(parts, dim=1)
        elif name == last:
            wider[name] = _insert_zeros(weight, 1, place)
    return wider


def _insert_zeros(weight: Tensor, dim: int, place: int) -> Tensor:
    before, after = weight.split([place, weight.shape[dim] - place], dim)
    zeros = torch.zeros_like(weight.narrow(dim, 0, 1))
    return torch.cat([before, zeros, after], dim)
