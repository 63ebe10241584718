"""Our own clouds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pdflow.adapters.adapter import Adapter
from pdflow.cloud import PointCloud


class PointCloudAdapter(Adapter):
    """A `PointCloud`, which a run keeps complete by itself."""

    columns = "inside"

    @classmethod
    def takes(cls, cloud: Any) -> bool:
        """Whether a cloud is ours."""
        return isinstance(cloud, PointCloud)

    def read(self) -> PointCloud:
        """The cloud itself."""
        cloud: PointCloud = self.given
        return cloud

    def restore(self, clean: PointCloud, added: Sequence[str]) -> PointCloud:
        """The result itself."""
        return clean
