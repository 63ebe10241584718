"""What the points of a cloud can be coloured by, as small integers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdflow.cloud import PointCloud

RGB, SCALAR, CLASSES = "rgb", "scalar", "classes"

LENGTHS = ("displacement", "error", "uncertainty")
"""Channels measured in the unit of the coordinates, shown from 0."""


_CLIP = (
    0.01  # share of values beyond each end of the colours, so that outliers do not grey the rest
)


@dataclass(frozen=True)
class Channel:
    """One way to colour a cloud.

    values     (M, 3) uint8 for "rgb"; (M,) uint8 or uint16 otherwise, with 0 for "no value"
    low, high  values of the numbers 1 and 255 (or 65535)
    shown      values of the first and the last colour; they may be equal
    """

    name: str
    kind: str
    values: NDArray[Any]
    unit: str = ""
    low: float = 0.0
    high: float = 1.0
    shown: tuple[float, float] = (0.0, 1.0)


def channels_of(cloud: PointCloud, unit: str) -> list[Channel]:
    """Channels of the attributes that are colours or have one number per point.

    Vectors and texts are left out, except `displacement`, of which the length is shown.
    """
    channels = []
    for name, values in cloud.attributes.items():
        if name == "colors" and values.ndim == 2 and values.shape[1] >= 3:
            channels.append(Channel(name, RGB, _to_bytes(values[:, :3])))
        elif name == "displacement" and values.ndim == 2:
            channels.append(scalar(name, np.linalg.norm(values, axis=1), unit))
        elif values.ndim == 1 and values.dtype.kind in "buif":
            channels.append(scalar(name, values, unit))
    return channels


def scalar(name: str, values: NDArray[Any], unit: str) -> Channel:
    """A channel of one number per point; integers that fit in 8 bits stay exact.

    unit  of the coordinates; used for lengths only

    >>> channel = scalar("intensity", np.array([10, 12, 14]), "m")
    >>> channel.values.tolist(), channel.low, channel.high
    ([1, 3, 5], 10.0, 264.0)
    """
    numbers = np.asarray(values, np.float64)
    finite = np.isfinite(numbers)
    known = numbers[finite] if finite.any() else np.zeros(1)
    low, high = float(known.min()), float(known.max())
    if values.dtype.kind in "bui" and high - low <= 254:
        top, high = 255, low + 254
    else:
        top, high = 65535, high if high > low else low + 1
    # Halves first: the range of float64 numbers may be larger than float64 can say.
    share = (numbers / 2 - low / 2) / (high / 2 - low / 2)
    with np.errstate(invalid="ignore"):
        codes = np.where(finite, 1 + np.rint(share * (top - 1)), 0)
    kind = CLASSES if name == "classification" and top == 255 else SCALAR
    return Channel(
        name,
        kind,
        codes.astype(np.uint8 if top == 255 else np.uint16),
        unit if name in LENGTHS else "",
        low,
        high,
        _shown(name, known),
    )


def _shown(name: str, known: NDArray[np.float64]) -> tuple[float, float]:
    first, last = (float(value) for value in np.quantile(known, [_CLIP, 1 - _CLIP]))
    if name in LENGTHS:
        return 0.0, last
    return (first, last) if last > first else (float(known.min()), float(known.max()))


def _to_bytes(colors: NDArray[Any]) -> NDArray[np.uint8]:
    """Colours of any dtype in 8 bits: floats from 0 to 1, 16-bit integers as LAS stores them."""
    if colors.dtype.kind == "f":
        return np.asarray(np.rint(255 * np.clip(np.nan_to_num(colors), 0, 1)), np.uint8)
    if colors.dtype == np.uint16 and colors.max(initial=0) > 255:
        return np.asarray(colors >> 8, np.uint8)  # some writers put 8 bits into 16
    return np.asarray(np.clip(colors, 0, 255), np.uint8)
