"""Tensors (M, >= 3) of torch, on any device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from pdflow.adapters.adapter import Adapter, is_instance, numbered, source_rows
from pdflow.adapters.array import check_shape
from pdflow.cloud import PointCloud


class TensorAdapter(Adapter):
    """Rows of numbers that begin with x, y, z. The device is kept, and the dtype of floats."""

    columns = "beside"

    def __init__(self, given: Any) -> None:
        super().__init__(given)
        self.tensor = given.detach()

    @classmethod
    def takes(cls, cloud: Any) -> bool:
        """Whether a cloud is a tensor."""
        return is_instance(cloud, "torch.Tensor")

    def read(self) -> PointCloud:
        """The first three columns."""
        check_shape(self.tensor.shape, self.name)
        return numbered(self.tensor[:, :3].double().cpu().numpy(), {})

    def restore(self, clean: PointCloud, added: Sequence[str]) -> Any:
        """The clean points, and the other columns as they were."""
        rows = source_rows(clean, len(self.tensor))
        floating = self.tensor.is_floating_point()
        result = self.tensor.clone() if floating else self.tensor.double()
        if rows is not None:
            result = result[rows]
        result[:, :3] = result.new_tensor(clean.points)
        return result

    def column(self, values: NDArray[Any]) -> Any:
        """A tensor on the same device; lengths have the dtype of the points."""
        import torch

        placed = torch.from_numpy(values).to(self.tensor.device)
        floats = placed.is_floating_point() and self.tensor.is_floating_point()
        return placed.to(self.tensor.dtype) if floats else placed
