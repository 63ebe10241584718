"""What type checkers know of `denoise`: its kinds of clouds, and its options."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias, TypedDict, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from typing_extensions import Required

from pdflow.model import PDFlow
from pdflow.pipeline.denoise import Mode, Outliers
from pdflow.pipeline.progress import Listener


class HasPoints(Protocol):
    """A cloud: ours, or one of Open3D, PyVista or anybody else."""

    @property
    def points(self) -> Any:
        """(M, 3)."""
        ...


class HasVertices(Protocol):
    """A cloud or mesh of trimesh."""

    @property
    def vertices(self) -> Any:
        """(M, 3)."""
        ...


class HasPoint(Protocol):
    """A tensor cloud of Open3D."""

    @property
    def point(self) -> Any:
        """Attributes, with `positions` (M, 3)."""
        ...


AnyCloud: TypeAlias = HasPoints | HasVertices | HasPoint
AnyArray: TypeAlias = torch.Tensor | NDArray[np.floating]
AnyArrays: TypeAlias = Sequence[torch.Tensor] | Sequence[NDArray[np.floating]]
Columns: TypeAlias = dict[str, Any]
"""Name -> values of each point; for a list of clouds, a list of these."""

Cloud = TypeVar("Cloud", bound=AnyCloud)
Clouds = TypeVar("Clouds", bound=Sequence[AnyCloud])
CloudOrClouds = TypeVar("CloudOrClouds", bound=AnyCloud | Sequence[AnyCloud])
Array = TypeVar("Array", bound=AnyArray)
Arrays = TypeVar("Arrays", bound=AnyArrays)
ArrayOrArrays = TypeVar("ArrayOrArrays", bound=AnyArray | AnyArrays)


class Options(TypedDict, total=False):
    """Keywords of `denoise` that do not change what it returns."""

    mode: Mode
    iterations: int | Literal["auto"]
    partitions: int | Literal["auto"]
    points: int | None
    overlap: float
    radius: float | None
    noise: float | str | NDArray[np.floating]
    max_move: float | None
    where: str | NDArray[np.bool_] | None
    seed: int | None
    model: str | Path | PDFlow
    device: str | torch.device | None
    progress: Listener | bool | None


class CloudOptions(Options, total=False):
    """For clouds with room for what a run adds to their points."""

    outliers: Outliers
    displacement: bool
    uncertainty: bool


class PlainOptions(Options, total=False):
    """For arrays, where a run adds nothing."""

    outliers: Literal["keep", "remove"]
    displacement: Literal[False]
    uncertainty: Literal[False]


class MarkOptions(Options, total=False):
    """For arrays, where a run marks outliers."""

    outliers: Required[Literal["mark"]]
    displacement: bool
    uncertainty: bool


class DisplacementOptions(Options, total=False):
    """For arrays, where a run tells how points moved."""

    outliers: Outliers
    displacement: Required[Literal[True]]
    uncertainty: bool
