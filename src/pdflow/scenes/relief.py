"""Fine relief: bumps, ridges and letters cut in or standing out, a few point spacings wide."""

from __future__ import annotations

import numpy as np

from pdflow.geometry.arrays import FloatArray
from pdflow.mesh import TriangleMesh
from pdflow.scenes.fields import frame_of, log_uniform, random_direction, smooth_field
from pdflow.scenes.surface import displaced, vertex_normals

LETTERS = (20, 50)
"""Fewest and most letters on an object."""


def engraved(mesh: TriangleMesh, rng: np.random.Generator, width: float) -> TriangleMesh:
    """The mesh with one kind of relief, about `width` wide and a quarter of that high or deep."""
    height = 0.25 * width * rng.uniform(0.5, 1.5)
    kind = rng.choice(["bumps", "ridges", "letters"])
    if kind == "bumps":
        heights = smooth_field(mesh.vertices, width, rng)
    elif kind == "ridges":
        phase = mesh.vertices @ random_direction(rng) * (np.pi / width)
        # Bent a little, and with narrow crests rather than a plain wave.
        heights = np.abs(np.sin(phase + smooth_field(mesh.vertices, 0.8, rng))) - 0.64
    else:
        heights = rng.choice([-1.0, 1.0]) * _letters(mesh, rng, width)
    return displaced(mesh, height * heights)


def _letters(mesh: TriangleMesh, rng: np.random.Generator, width: float) -> FloatArray:
    """Depth or height (V,) from 0 to 1: letters of a few straight strokes each."""
    depth = np.zeros(len(mesh.vertices))
    normals = vertex_normals(mesh)
    for center in rng.integers(len(depth), size=rng.integers(*LETTERS, endpoint=True)):
        size = width * log_uniform(rng, 3, 6)
        offsets = mesh.vertices - mesh.vertices[center]
        near = np.flatnonzero((offsets**2).sum(1) < (1.5 * size) ** 2)
        across = np.stack(frame_of(normals[center], rng.uniform(0, 2 * np.pi)), axis=1)
        flat = offsets[near] @ across
        for start, end in rng.uniform(-size / 2, size / 2, (rng.integers(2, 5), 2, 2)):
            along = end - start
            share = np.clip((flat - start) @ along / (along @ along), 0, 1)
            distance = np.linalg.norm(flat - start - share[:, None] * along, axis=1)
            groove = np.clip(1.5 - 3 * distance / width, 0, 1)
            depth[near] = np.maximum(depth[near], groove)
    return depth
