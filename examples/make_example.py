"""Make the shipped example: a helical gear with a rounded bore, as mesh, clean and noisy cloud.

The shape is our own and analytic. A closed profile in the (radius, height) plane is swept around
the z axis: its inner half is a half circle (smooth), its outer half has two corners (sharp), and
the outer radius follows teeth that turn with the height. The clouds carry what must survive
denoising: colours (uint8, by angle) and intensity (uint16, by how the surface meets the light).

    python examples/make_example.py        # writes gear.off, gear.ply and gear_noisy.ply beside it
"""

from __future__ import annotations

import colorsys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pdflow import PointCloud, TriangleMesh, write, write_mesh
from pdflow.geometry.sampling import sample_mesh
from pdflow.noise.models import add_noise

FOLDER = Path(__file__).resolve().parent

TEETH = 12
TOOTH_HEIGHT = 0.16
TWIST = 0.5  # radians that the teeth turn per unit of height
BORE, RIM, HALF_HEIGHT = 0.45, 0.84, 0.22

AROUND = 240  # steps around the axis
FLAT, WALL, ROUND = 3, 5, 10  # steps along each stretch of the profile
POINTS, LEVEL, SEED = 10_000, 0.02, 0


def gear_radius(angle: NDArray[np.float64]) -> NDArray[np.float64]:
    """Outer radius at an angle: flat tops and roots with steep but not vertical flanks."""
    wave = np.clip(2.5 * np.cos(TEETH * angle), -1, 1)
    return np.asarray(RIM + TOOTH_HEIGHT * (wave + 1) / 2)


def profile() -> NDArray[np.float64]:
    """The closed profile, (S, 2): how far out (0 bore, 1 rim; below 0 inside the bore), height.

    Bottom from bore to rim, outer wall up, top back to the bore, and the half circle down.
    """
    flat, wall, turn = (np.arange(steps) / steps for steps in (FLAT, WALL, ROUND))
    stretches = [
        (flat, np.full(FLAT, -HALF_HEIGHT)),
        (np.ones(WALL), HALF_HEIGHT * (2 * wall - 1)),
        (1 - flat, np.full(FLAT, HALF_HEIGHT)),
        (-HALF_HEIGHT / (RIM - BORE) * np.sin(np.pi * turn), HALF_HEIGHT * np.cos(np.pi * turn)),
    ]
    return np.concatenate([np.stack(stretch, 1) for stretch in stretches])


def gear_mesh() -> TriangleMesh:
    """The swept profile as a closed mesh with the topology of a torus."""
    out, height = profile().T
    angle = 2 * np.pi * np.arange(AROUND)[:, None] / AROUND
    rim = gear_radius(angle + TWIST * height)
    # Only the outer half follows the teeth, so that the bore stays round.
    radius = BORE + np.where(out > 0, out * (rim - BORE), out * (RIM - BORE))
    vertices = np.stack(
        [radius * np.cos(angle), radius * np.sin(angle), np.broadcast_to(height, radius.shape)], -1
    )
    index = np.arange(radius.size).reshape(radius.shape)
    ahead, up = np.roll(index, -1, 0), np.roll(index, -1, 1)
    both = np.roll(ahead, -1, 1)
    faces = np.concatenate(
        [np.stack([index, ahead, both], -1), np.stack([index, both, up], -1)]
    ).reshape(-1, 3)
    return TriangleMesh(vertices.reshape(-1, 3).round(5), faces)


def paint(points: NDArray[np.float64], normals: NDArray[np.float64]) -> dict[str, NDArray]:
    """Attributes for points (M, 3) with surface normals (M, 3)."""
    hue = np.arctan2(points[:, 1], points[:, 0]) / (2 * np.pi) % 1
    colors = [colorsys.hsv_to_rgb(h, 0.55, 0.95) for h in hue]
    light = np.array([0.36, 0.48, 0.8])
    return {
        "colors": np.round(255 * np.array(colors)).astype(np.uint8),
        "intensity": np.round(2000 * (1 + normals @ light)).astype(np.uint16),
    }


def main() -> None:
    """Write the three files."""
    mesh = gear_mesh()
    a, b, c = mesh.triangles.transpose(1, 0, 2)
    normals = np.cross(b - a, c - a)
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    points, faces = sample_mesh(mesh, POINTS, method="even", seed=SEED)
    noisy = add_noise(points, "gaussian", LEVEL, seed=SEED)
    attributes = paint(points, normals[faces])
    write_mesh(FOLDER / "gear.off", mesh)
    for name, places in (("gear.ply", points), ("gear_noisy.ply", noisy)):
        # float32 is exact enough at this size and halves the file.
        write(FOLDER / name, PointCloud(places.astype(np.float32), attributes))
        print(f"wrote {FOLDER / name}: {len(places)} points")


if __name__ == "__main__":
    main()
