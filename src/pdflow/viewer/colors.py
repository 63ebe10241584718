"""Colours of values: an even ramp from dark to light, and distinct colours of classes.

Both are computed in OKLab (Ottosson 2020), a colour space in which equal distances look equally
different. Lightness rises along the whole ramp, so it also reads in grey and without seeing hue.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]

_TO_LMS = np.array(
    [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
)
_TO_LAB = np.array(
    [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
)
_STEPS = 256
_DENSE = 4096


def ramp() -> NDArray[np.uint8]:
    """(256, 3): colours of values from low to high; dark violet, blue, green, pale yellow."""
    t = np.linspace(0, 1, _DENSE)
    # One chroma for all, and hues that leave blue slowly: a screen can show every colour of it.
    hue = np.radians(320 - 220 * t**1.6)
    path = np.stack([0.30 + 0.64 * t, 0.12 * np.cos(hue), 0.12 * np.sin(hue)], axis=1)
    length = np.concatenate([[0], np.cumsum(np.linalg.norm(np.diff(path, axis=0), axis=1))])
    even = np.linspace(0, length[-1], _STEPS)
    colors = np.stack([np.interp(even, length, path[:, k]) for k in range(3)], axis=1)
    return _to_bytes(colors)


def class_colors(count: int = 24) -> NDArray[np.uint8]:
    """(count, 3): colours of class codes; neighbouring codes differ in hue and lightness."""
    code = np.arange(count)
    hue = np.radians(360 * (code * 0.618034 % 1) + 60)
    lightness = np.array([0.72, 0.58, 0.82])[code % 3]
    return _to_bytes(np.stack([lightness, 0.13 * np.cos(hue), 0.13 * np.sin(hue)], axis=1))


def rgb_to_oklab(rgb: ArrayLike) -> FloatArray:
    """(..., 3): sRGB from 0 to 1 as lightness, green to red, blue to yellow.

    >>> rgb_to_oklab([1.0, 1.0, 1.0]).round(3).tolist()[0]
    1.0
    """
    rgb = np.asarray(rgb, np.float64)
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    return np.asarray(np.cbrt(linear @ _TO_LMS.T) @ _TO_LAB.T)


def oklab_to_rgb(lab: ArrayLike) -> FloatArray:
    """(..., 3): the inverse of `rgb_to_oklab`; outside 0 to 1 a screen has no such colour."""
    lms = (np.asarray(lab, np.float64) @ np.linalg.inv(_TO_LAB).T) ** 3
    linear = lms @ np.linalg.inv(_TO_LMS).T
    high = 1.055 * np.maximum(linear, 0.0031308) ** (1 / 2.4) - 0.055
    return np.asarray(np.where(linear <= 0.0031308, 12.92 * linear, high))


def _to_bytes(lab: FloatArray) -> NDArray[np.uint8]:
    return np.asarray(np.rint(255 * np.clip(oklab_to_rgb(lab), 0, 1)), np.uint8)
