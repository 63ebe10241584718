"""Parameters of the augmentation module's networks."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

LOG_SCALE_SPEED = 3.0
"""Factor on the learned log scale of the output layer, so that it grows quickly from zero."""


class ConditionWeights(NamedTuple):
    """Weights (outputs, inputs) and biases of four layers, as in nn.Linear: D -> H -> H -> H -> F.

    A relu follows the second and the third layer.
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

    Weights are (outputs, inputs) and biases (outputs,), as in nn.Linear. gamma and beta (H,) belong
    to batch normalisation, if there is any.
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
    """What a coupling does as one of a chain.

    keep_first  keep the first C - M channels, not the last ones
    drawn       start the terms with -log N(x; 0, I), as the first coupling of a sample does; the
                terms of the last coupling are then -log q
    squash      apply a sigmoid to all channels, as the last coupling does
    """

    keep_first: bool
    drawn: bool = False
    squash: bool = False


class Norm(NamedTuple):
    """Running mean and variance (H,) of batch normalisation.

    In training, the statistics of the batch are used instead, and the running ones move by
    `momentum` of the way to them.
    """

    mean: Tensor
    var: Tensor
    training: bool
    momentum: float
    eps: float
