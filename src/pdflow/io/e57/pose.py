"""The pose of a scan: from the frame of the scanner to the common frame of the file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Pose:
    """common = rotation @ local + translation; (3, 3) and (3,)."""

    rotation: NDArray[np.float64]
    translation: NDArray[np.float64]

    @staticmethod
    def of(scan: dict[str, Any]) -> Pose:
        """The pose in the metadata of a scan; the identity if there is none.

        >>> Pose.of({"pose": {"translation": {"x": 1.0, "y": 2.0, "z": 3.0}}}).translation
        array([1., 2., 3.])
        """
        pose = scan.get("pose", {})
        turn, shift = pose.get("rotation", {}), pose.get("translation", {})
        w, x, y, z = np.array([turn.get(k, k == "w") for k in "wxyz"], np.float64)
        size = w * w + x * x + y * y + z * z
        # The rotation matrix of a quaternion of any non-zero length.
        doubled = np.array(
            [
                [-y * y - z * z, x * y - w * z, x * z + w * y],
                [x * y + w * z, -x * x - z * z, y * z - w * x],
                [x * z - w * y, y * z + w * x, -x * x - y * y],
            ]
        )
        rotation = np.eye(3) + 2 / size * doubled if size else np.full((3, 3), np.nan)
        return Pose(rotation, np.array([shift.get(k, 0.0) for k in "xyz"], np.float64))

    @property
    def valid(self) -> bool:
        """Whether all its numbers are finite."""
        return bool(np.isfinite(self.rotation).all() and np.isfinite(self.translation).all())

    @property
    def turns(self) -> bool:
        """Whether it rotates at all; if not, coordinates stay the same to the bit."""
        return not np.array_equal(self.rotation, np.eye(3))

    def to_common(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """Points (M, 3) from the scanner frame to the common frame."""
        return self.turned(points) + self.translation

    def to_local(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """Points (M, 3) from the common frame to the scanner frame."""
        return self.turned_back(points - self.translation)

    def turned(self, vectors: NDArray[Any]) -> NDArray[Any]:
        """Vectors (M, 3) from the scanner frame to the common frame, of the same dtype."""
        return _product(vectors, self.rotation.T) if self.turns else vectors

    def turned_back(self, vectors: NDArray[Any]) -> NDArray[Any]:
        """Vectors (M, 3) from the common frame to the scanner frame, of the same dtype."""
        return _product(vectors, self.rotation) if self.turns else vectors


def _product(vectors: NDArray[Any], matrix: NDArray[np.float64]) -> NDArray[Any]:
    """`vectors @ matrix`, (M, 3), of the dtype of the vectors.

    The last bits of a matrix product may depend on the number of rows. Here they do not, so that
    chunks give the bits of the whole.
    """
    x, y, z = vectors.astype(np.float64).T
    columns = [x * a + y * b + z * c for a, b, c in matrix.T]
    return np.stack(columns, axis=1).astype(vectors.dtype)
