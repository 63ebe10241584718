"""The authors' released tensors, under their key names, as one of our models.

Their network is one of ours: an absolute condition net, BatchNorm in the augmentation, and the
filter in `channel_mask`. Only the parametrisation of some maps differs:

    actnorm     theirs x exp(logs) + bias       ours (x - mu) / exp(sigma)
    inv1x1      theirs a dense W                ours W = P L U
    couplings   theirs two networks             ours one network of two groups
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from pdflow.config import FlowConfig
from pdflow.errors import PdflowError
from pdflow.flow.actnorm import ActNorm
from pdflow.flow.augment import AbsoluteCondition, Augmentation, ConditionalCoupling
from pdflow.flow.bijection import Bijection, Chain
from pdflow.flow.coupling import Coupling
from pdflow.flow.filters import FixedBinaryMask, LatentCodeConsistency
from pdflow.flow.permutation import InvertibleLinear, Reverse
from pdflow.flow.units import EdgeUnit, GroupedLinear
from pdflow.model import PDFlow

EDGE_NEIGHBOURS = (32, 16, 32, 16, 32)
NETS = ("scale_net", "bias_net")
"""Their names for our groups, in our order."""


@torch.no_grad()
def import_authors_weights(tensors: dict[str, Tensor]) -> PDFlow:
    """A `PDFlow` that computes the same as the authors' network with these tensors."""
    source = _Tensors(tensors)
    model = PDFlow(_config_of(source))
    for i, block in enumerate(model.flow):
        _copy_block(source, f"flow_assemblies.{i}", block)
    assert model.augmentation is not None
    _copy_augmentation(source, model.augmentation)
    mask = source.take("channel_mask")
    if isinstance(model.filter, LatentCodeConsistency):
        model.filter.weight.copy_(mask)
    elif isinstance(model.filter, FixedBinaryMask):
        model.filter.mask.copy_(mask.flatten())
    source.require_empty()
    return model.eval()


class _Tensors:
    """Their tensors. Each is taken once, so that a forgotten one is noticed."""

    def __init__(self, tensors: dict[str, Tensor]) -> None:
        self.left = {k: v for k, v in tensors.items() if not k.endswith("inverse_idx")}

    def take(self, key: str) -> Tensor:
        if key not in self.left:
            raise PdflowError(f"These are not the authors' weights: tensor {key!r} is missing.")
        return self.left.pop(key)

    def require_empty(self) -> None:
        if self.left:
            raise PdflowError(f"Tensor {next(iter(self.left))!r} has no place in our network.")


def _config_of(source: _Tensors) -> FlowConfig:
    blocks = {k.split(".")[1] for k in source.left if k.startswith("flow_assemblies.")}
    mask = source.left.get("channel_mask")
    if mask is None or not blocks:
        raise PdflowError("These are not the authors' weights: no flow blocks or no channel_mask.")
    neighbours = (EDGE_NEIGHBOURS + (0,) * len(blocks))[: len(blocks)]
    channels = mask.shape[-1]
    config = FlowConfig(edge_neighbours=neighbours, augment_dims=channels - 3)
    if mask.ndim == 2:
        return replace(config, filter_init="authors")
    return replace(config, filter="fbm", masked_dims=int((mask == 0).sum()))


def _copy_block(source: _Tensors, prefix: str, block: Bijection) -> None:
    assert isinstance(block, Chain)
    linear, norm, first, reverse, second = block
    assert isinstance(linear, InvertibleLinear)
    assert isinstance(norm, ActNorm)
    assert isinstance(reverse, Reverse)
    linear.set_weight(source.take(f"{prefix}.permutate1.permutater.W"))
    log_scale = source.take(f"{prefix}.actnorm.logs").flatten()
    bias = source.take(f"{prefix}.actnorm.bias").flatten()
    norm.sigma.copy_(-log_scale)
    norm.mu.copy_(-bias * torch.exp(-log_scale))
    norm.initialised.fill_(True)
    order = source.take(f"{prefix}.permutate2.permutater.direct_idx")
    if not torch.equal(order, torch.arange(len(order)).flip(0)):
        raise PdflowError(f"Tensor {prefix}.permutate2 is not the reverse order we expect.")
    _copy_coupling(source, f"{prefix}.coupling1", first)
    _copy_coupling(source, f"{prefix}.coupling2", second)


def _copy_coupling(source: _Tensors, prefix: str, coupling: nn.Module) -> None:
    assert isinstance(coupling, Coupling)
    if isinstance(coupling.unit, EdgeUnit):
        unit = coupling.unit
        layers = {"linear1": unit.first, "linear2": unit.second, "linear3": unit.third}
    else:
        layers = {f"linears.{2 * i}": m for i, m in enumerate(coupling.unit.layers)}  # type: ignore[misc]
    for group, net in enumerate(NETS):
        for name, layer in layers.items():
            assert isinstance(layer, GroupedLinear)
            weight = source.take(f"{prefix}.{net}.{name}.weight")
            layer.weight[group] = weight.flatten(1).T
            layer.bias[group] = source.take(f"{prefix}.{net}.{name}.bias")


def _copy_augmentation(source: _Tensors, augmentation: Augmentation) -> None:
    condition = augmentation.condition
    assert isinstance(condition, AbsoluteCondition)
    _copy_linear(source, "argument.shallow.trans1", condition.lift)
    for i, layer in enumerate(condition.layers):
        _copy_linear(source, f"argument.shallow.convs.{i}", layer)
    _copy_linear(source, "argument.shallow.trans2", condition.last)
    couplings = [s for s in augmentation.flow if isinstance(s, ConditionalCoupling)]
    for i, step in enumerate(couplings):
        prefix = f"argument.steps.{i}"
        _copy_linear(source, f"{prefix}.conv_in", step.lift)
        _copy_linear(source, f"{prefix}.gated_conv.conv1", step.inner)
        _copy_linear(source, f"{prefix}.gated_conv.conv2", step.gate)
        _copy_linear(source, f"{prefix}.gated_conv.conv3", step.condition)
        for name, value in step.norm.state_dict().items():
            value.copy_(source.take(f"{prefix}.layer_norm.{name}"))
        step.last.weight.copy_(source.take(f"{prefix}.conv_out.conv1d.weight").flatten(1))
        step.last.bias.copy_(source.take(f"{prefix}.conv_out.bias").flatten())
        step.log_scale.copy_(source.take(f"{prefix}.conv_out.logs").flatten())


def _copy_linear(source: _Tensors, prefix: str, layer: nn.Module) -> None:
    assert isinstance(layer, nn.Linear)
    layer.weight.copy_(source.take(f"{prefix}.weight").flatten(1))
    layer.bias.copy_(source.take(f"{prefix}.bias"))
