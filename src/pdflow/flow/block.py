"""The flow module: blocks of permutation, actnorm, coupling, reverse and coupling (Fig. 3)."""

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
    """One f^l of Eq. (4): permutation layer, actnorm, coupling, reverse, coupling.

    As a chain it defines the block. `encode` and `decode` compute the same in fewer passes over the
    points: permutation and actnorm become one affine map, and the couplings reverse the channels
    themselves.

    mixing  the permutation layer: a linear map of the channels, the same for all points
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
        """The ones before and after the reverse."""
        _, _, first, _, second = self
        assert isinstance(first, Coupling)
        assert isinstance(second, Coupling)
        return first, second

    def encode(
        self, x: Tensor, context: Tensor | None, mix: Map, total: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Like `transform`, with permutation and actnorm as a map; adds its terms to `total`."""
        first, second = self.couplings
        x, terms = first.couple(affine(x, *mix), context, total)
        x, terms = second.couple(x, context, terms, Direction(flip_in=True))
        return x, total if terms is None else terms

    def decode(
        self, y: Tensor, context: Tensor | None, unmix: Map, total: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Like `untransform`, with the inverse of permutation and actnorm as a map; adds terms."""
        first, second = self.couplings
        y, terms = second.couple(y, context, total, Direction(inverse=True, flip_out=True))
        y, terms = first.couple(y, context, terms, INVERSE)
        return affine(y, *unmix), total if terms is None else terms


class Flow(Chain):
    """z = f(h), Eq. (1), and h = f^-1(z), Eq. (3): L blocks, run in their fused form.

    The affine maps of all blocks are made together.
    """

    def __init__(self, blocks: Sequence[Block]) -> None:
        super().__init__(blocks)

    def __iter__(self) -> Iterator[Block]:
        return iter(self.steps)  # type: ignore[arg-type]

    def transform(self, x: Tensor, context: Tensor | None) -> tuple[Tensor, Tensor]:
        """Encode h (B, N, D) to z (B, N, D), first block first."""
        return _encode(list(self), x, context)

    def untransform(self, y: Tensor, context: Tensor | None) -> tuple[Tensor, Tensor]:
        """Decode z (B, N, D) to h (B, N, D), last block first."""
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
    """Encode block by block: the actnorm of a block decides the batch that the next one gets."""
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
    """Permutation and actnorm of each block as one map, and the sum of their log-determinants."""
    return affine_maps(
        [block.mixing for block in blocks], [block.norm for block in blocks], inverse
    )
