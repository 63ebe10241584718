"""The direction of a coupling, and the order of its channels."""

from __future__ import annotations

from typing import NamedTuple


class Direction(NamedTuple):
    """The direction of a coupling, and whether its channels are in reverse order.

    inverse            from latent code to points
    flip_in, flip_out  reverse the channels before or after the coupling, like a `Reverse` layer
    """

    inverse: bool = False
    flip_in: bool = False
    flip_out: bool = False


FORWARD = Direction()
INVERSE = Direction(inverse=True)
