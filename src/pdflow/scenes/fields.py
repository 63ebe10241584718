"""Smooth random functions of a place: relief of a surface, correlated errors of a scanner."""

from __future__ import annotations

import numpy as np

from pdflow.geometry.arrays import FloatArray


def smooth_field(
    places: FloatArray, length: float, rng: np.random.Generator, features: int = 64
) -> FloatArray:
    """Values (...) of a random function at places (..., D): mean 0, variance 1, nearly Gaussian.

    length    distance at which the correlation of two values has fallen to 1/e; it is
              exp(-d^2 / length^2) at distance d
    features  cosines that are summed (random Fourier features); more are closer to Gaussian

    >>> rng = np.random.default_rng(0)
    >>> smooth_field(np.zeros((5, 2)), 1.0, rng).shape
    (5,)
    """
    frequencies = rng.standard_normal((places.shape[-1], features)) * (np.sqrt(2) / length)
    phases = 2 * np.pi * rng.random(features)
    return np.asarray(np.sqrt(2 / features) * np.cos(places @ frequencies + phases).sum(-1))


def log_uniform(rng: np.random.Generator, low: float, high: float) -> float:
    """A number between `low` and `high` whose logarithm is uniform."""
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


def unit(vectors: FloatArray) -> FloatArray:
    """Vectors (..., D) of length 1; a zero vector stays zero."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.asarray(vectors / np.where(lengths > 0, lengths, 1.0))


def random_direction(rng: np.random.Generator) -> FloatArray:
    """A unit vector (3,), all directions alike."""
    return unit(rng.standard_normal(3))


def frame_of(axis: FloatArray, turn: float = 0.0) -> tuple[FloatArray, FloatArray]:
    """Two unit vectors across the unit vector `axis` (3,) and each other, turned by an angle."""
    helper = np.eye(3)[np.argmin(np.abs(axis))]
    first = unit(np.cross(axis, helper))
    second = np.cross(axis, first)
    return np.cos(turn) * first + np.sin(turn) * second, np.cos(turn) * second - np.sin(
        turn
    ) * first
