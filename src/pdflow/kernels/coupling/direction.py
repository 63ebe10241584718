"""Which way a coupling runs, and in which order its channels are."""

from __future__ import annotations

from typing import NamedTuple


class Direction(NamedTuple):
    """The direction of a coupling.

    inverse            from the code back to points
    flip_in, flip_out  x or y has its channels in reverse order, as a `Reverse` layer before or
                       after the coupling would leave them
    """

    inverse: bool = False
    flip_in: bool = False
    flip_out: bool = False


FORWARD = Direction()
INVERSE = Direction(inverse=True)
