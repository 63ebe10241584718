"""Parameters of the augmentation module's networks."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

LOG_SCALE_SPEED = 3.0
"""Factor on the learned log scale of the output layer, which lets it leave zero quickly."""


class ConditionWeights(NamedTuple):
    """Weights (outputs, inputs) and biases of four layers, as in nn.Linear: D -> H -> H -> H -> F.

    After the second and the third there is a relu.
    """

    lift: Tensor
    lift_bias: Tensor
    first: Tensor
    first_bias: Tensor
    second: Tensor
    second_bias: Tensor
    last: Tensor
    last_bias: Tensor


class GatedWeights(NamedTuple):
    """The network of one coupling: F condition features, H hidden, C - M kept, M moved channels.

    Weights are (outputs, inputs) and biases (outputs,), as in nn.Linear. gamma and beta (H,) are
    those of batch normalisation, where there is one.
    """

    lift: Tensor
    lift_bias: Tensor
    inner: Tensor
    inner_bias: Tensor
    gate: Tensor
    gate_bias: Tensor
    condition: Tensor
    condition_bias: Tensor
    gamma: Tensor | None
    beta: Tensor | None
    last: Tensor
    last_bias: Tensor
    log_scale: Tensor


class Step(NamedTuple):
    """Where a coupling stands in the chain of couplings.

    keep_first  whether the first C - M channels are kept, or the last ones
    drawn       whether terms begin with -log N(x; 0, I), as they do in the first coupling of a
                sample; those of the last coupling are -log q then
    squash      whether a sigmoid of all channels follows, as it does after the last coupling
    """

    keep_first: bool
    drawn: bool = False
    squash: bool = False


class Norm(NamedTuple):
    """Running mean and variance (H,) of batch normalisation, and whether the batch's are used.

    Where they are, the running ones move by `momentum` of the way to them.
    """

    mean: Tensor
    var: Tensor
    training: bool
    momentum: float
    eps: float
