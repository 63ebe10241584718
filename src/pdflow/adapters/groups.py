"""One cloud, a list of clouds, or a batch (B, N, >= 3): what a caller gives to one run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from pdflow.adapters import ADAPTERS, adapt
from pdflow.adapters.adapter import Adapter
from pdflow.adapters.array import ArrayAdapter
from pdflow.adapters.tensor import TensorAdapter
from pdflow.cloud import PointCloud
from pdflow.errors import PdflowError


@dataclass(frozen=True)
class Group:
    """Clouds, and how their results become one result again.

    kind     "one" cloud, a "list" (or tuple) of them, or a "batch": one array for all
    members  an adapter for each cloud
    join     from one result for each cloud to the result of all
    """

    kind: Literal["one", "list", "batch"]
    members: Sequence[Adapter]
    join: Callable[[Sequence[Any]], Any]

    def check_room(self, added: Sequence[str]) -> None:
        """Refuse clouds without room for the attributes that a run adds."""
        for member in self.members:
            if added and member.columns == "nowhere":
                names = " and ".join(map(repr, added))
                raise PdflowError(
                    f"This {member.name} has no room for {names}: pass its points as an array, "
                    "whose result comes with a dict of them, or a pdflow.PointCloud."
                )

    def check_rows(self, some_go: bool) -> None:
        """Refuse clouds whose rows must stay, for a run that makes new ones or removes some."""
        if self.kind == "batch" and some_go:
            raise PdflowError(
                "Clouds of a batch need equal numbers of points, which outliers='remove' does not "
                "keep: pass a list of clouds, or mark outliers."
            )
        for member in self.members:
            if member.fixed_rows is not None:
                raise PdflowError(
                    f"The {member.fixed_rows} of this {member.name} refer to its points: use mode "
                    "'points' and keep or mark outliers, or pass its points as an array."
                )

    def restore(self, results: Sequence[PointCloud], added: Sequence[str]) -> Any:
        """The results of all clouds, as what the caller gave."""
        return self.join([m.restore(r, added) for m, r in self._pairs(results)])

    def columns(self, results: Sequence[PointCloud], added: Sequence[str]) -> dict[str, Any] | None:
        """The attributes that a run added to clouds without names for them; None for others."""
        if not added or all(member.columns == "inside" for member in self.members):
            return None
        return {
            name: self.join([m.column(r.attributes[name]) for m, r in self._pairs(results)])
            for name in added
        }

    def _pairs(self, results: Sequence[PointCloud]) -> list[tuple[Adapter, PointCloud]]:
        return list(zip(self.members, results, strict=True))


def group(clouds: Any) -> Group:
    """Sort out what a caller gave.

    >>> group(np.zeros((4, 100, 3))).kind, group([np.zeros((9, 3))]).kind, group([[0, 0, 0]]).kind
    ('batch', 'list', 'one')
    """
    if isinstance(clouds, (list, tuple)) and any(map(_is_cloud, clouds)):
        join = list if isinstance(clouds, list) else tuple
        return Group("list", [adapt(cloud) for cloud in clouds], join)
    one = adapt(clouds)
    if isinstance(one, TensorAdapter) and one.tensor.ndim == 3:
        return _batch(TensorAdapter, one.tensor, _stack_tensors)
    if isinstance(one, ArrayAdapter) and one.array.ndim == 3:
        return _batch(ArrayAdapter, one.array, np.stack)
    return Group("one", [one], lambda results: results[0])


def _batch(kind: type[Adapter], clouds: Any, stack: Callable[[Sequence[Any]], Any]) -> Group:
    if len(clouds) == 0:
        raise PdflowError(f"This batch has shape {tuple(clouds.shape)}: give at least one cloud.")
    return Group("batch", [kind(cloud) for cloud in clouds], stack)


def _stack_tensors(results: Sequence[Any]) -> Any:
    import torch

    return torch.stack(list(results))


def _is_cloud(item: Any) -> bool:
    """Whether an item of a list is a cloud of its own, and not the row of a point."""
    if isinstance(item, (list, tuple)):
        return False
    if hasattr(item, "ndim"):
        return bool(item.ndim >= 2)
    return any(kind.takes(item) for kind in ADAPTERS if kind is not ArrayAdapter)
