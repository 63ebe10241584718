"""The flow: blocks of permutation, actnorm, coupling, reverse and coupling (Fig. 3)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torch import Tensor

from pdflow.flow.actnorm import ActNorm
from pdflow.flow.bijection import Bijection, Chain, no_change
from pdflow.flow.coupling import Coupling
from pdflow.flow.mixing import Map, affine_maps
from pdflow.flow.permutation import Reverse
from pdflow.kernels.coupling.direction import INVERSE, Direction
from pdflow.kernels.mixing import affine


class Block(Chain):
    """The chain of its steps, in fewer passes over the points.

    Permutation and actnorm are one affine map, and the couplings turn the channels around
    themselves.

    mixing  a linear map of the channels that is the same for all points
    """

    def __init__(self, mixing: Bijection, norm: ActNorm, first: Coupling, second: Coupling) -> None:
        super().__init__([mixing, norm, first, Reverse(), second])

    @property
    def mixing(self) -> Bijection:
        """The permutation layer."""
        return next(iter(self))

    @property
    def norm(self) -> ActNorm:
        """The actnorm."""
        return list(self)[1]  # type: ignore[return-value]

    @property
    def couplings(self) -> tuple[Coupling, Coupling]:
        """Those before and after the channels are turned around."""
        _, _, first, _, second = self
        assert isinstance(first, Coupling)
        assert isinstance(second, Coupling)
        return first, second

    def encode(
        self, x: Tensor, context: Tensor | None, mix: Map, total: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Like `transform`, with permutation and actnorm as a map, and added to `total` (B, N)."""
        first, second = self.couplings
        x, terms = first.couple(affine(x, *mix), context, total)
        x, terms = second.couple(x, context, terms, Direction(flip_in=True))
        return x, total if terms is None else terms

    def decode(
        self, y: Tensor, context: Tensor | None, unmix: Map, total: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Like `untransform`, with the inverse of permutation and actnorm as a map."""
        first, second = self.couplings
        y, terms = second.couple(y, context, total, Direction(inverse=True, flip_out=True))
        y, terms = first.couple(y, context, terms, INVERSE)
        return affine(y, *unmix), total if terms is None else terms


class Flow(Chain):
    """Blocks one after the other, whose affine maps are made together."""

    def __init__(self, blocks: Sequence[Block]) -> None:
        super().__init__(blocks)

    def __iter__(self) -> Iterator[Block]:
        return iter(self.steps)  # type: ignore[arg-type]

    def transform(self, x: Tensor, context: Tensor | None) -> tuple[Tensor, Tensor]:
        """First block first."""
        return _encode(list(self), x, context)

    def untransform(self, y: Tensor, context: Tensor | None) -> tuple[Tensor, Tensor]:
        """Last block first."""
        return _decode(list(self), y, context)


def _encode(blocks: list[Block], x: Tensor, context: Tensor | None) -> tuple[Tensor, Tensor]:
    if not all(block.norm.is_settled for block in blocks):
        return _encode_first_batch(blocks, x, context)
    maps, log_det = _maps(blocks)
    total = log_det.expand(x.shape[:2])
    for block, mix in zip(blocks, maps, strict=True):
        x, total = block.encode(x, context, mix, total)
    return x, total


def _encode_first_batch(
    blocks: list[Block], x: Tensor, context: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Encode block by block: what an actnorm learns decides what the next one sees."""
    total = no_change(x)
    for block in blocks:
        if block.norm.awaits_batch():
            block.norm.initialise(block.mixing.transform(x, context)[0])
        [mix], log_det = _maps([block])
        x, total = block.encode(x, context, mix, total + log_det)
    return x, total


def _decode(blocks: list[Block], y: Tensor, context: Tensor | None) -> tuple[Tensor, Tensor]:
    maps, log_det = _maps(blocks, inverse=True)
    total = -log_det.expand(y.shape[:2])
    for block, unmix in zip(reversed(blocks), reversed(maps), strict=True):
        y, total = block.decode(y, context, unmix, total)
    return y, total


def _maps(blocks: list[Block], inverse: bool = False) -> tuple[list[Map], Tensor]:
    """Permutation and actnorm of each block as one map, and their log-determinants' sum."""
    return affine_maps(
        [block.mixing for block in blocks], [block.norm for block in blocks], inverse
    )
