"""Standard normal numbers on one core, vectorised.

Logarithm, sine and cosine are polynomials (those of Cephes for float32), because a loop that calls
the C library is not vectorised. They are exact to 2e-7.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from pdflow.compiled import compiled
from pdflow.kernels.normal import ANGLE, WORD

Words = tuple[np.uint64, np.uint64, np.uint64, np.uint64]
Numbers = NDArray[np.float32]

_GROUPS = 512
"""Groups of a block, which stays in the nearest cache."""

_WORD, _HALF_WORD, _ANGLE = np.float32(WORD), np.float32(WORD / 2), np.float32(ANGLE)

# Words are held in 64 bits: a processor multiplies the lower halves of 64-bit lanes.
_LOW, _BITS = np.uint64(0xFFFFFFFF), np.uint64(32)
_FACTOR_A, _FACTOR_B = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_STEP_A, _STEP_B = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)

_SIGNIFICAND_BITS = np.int32(23)
_SQRT_HALF_BITS = np.int32(0x3F3504F3)
_LN_2 = np.float32(math.log(2))
_LOG = tuple(
    np.float32(factor)
    for factor in (
        7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1,
        -1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1,
    )
)  # fmt: skip
_SIN = tuple(np.float32(factor) for factor in (-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1))
_COS = tuple(np.float32(factor) for factor in (2.4433157118e-5, -1.3887316255e-3, 4.1666645683e-2))
_ONE, _HALF, _MINUS_TWO = np.float32(1), np.float32(0.5), np.float32(-2)

_QUARTER_BITS = np.uint32(30)
_EIGHTH = np.uint32(1 << 29)


@compiled
def fill(key: np.uint64, drawn: Numbers) -> None:
    """Write the first numbers of a key to `drawn`, one-dimensional and contiguous."""
    words, numbers = np.empty((4, _GROUPS), np.uint32), np.empty((4, _GROUPS), np.float32)
    for start in range(0, len(drawn), 4 * _GROUPS):
        _fill_words(key, start // 4, words)
        box_muller(words[0], words[1], numbers[0], numbers[1])
        box_muller(words[2], words[3], numbers[2], numbers[3])
        block = drawn[start : start + 4 * _GROUPS]
        for i in range(len(block)):
            block[i] = numbers[i % 4, i // 4]


@compiled
def _fill_words(key: np.uint64, first: int, words: NDArray[np.uint32]) -> None:
    """The words (4, G) of groups from `first` on."""
    zero = np.uint64(0)
    for i in range(words.shape[1]):
        a, b, c, d = philox(key, np.uint64(first + i), zero, zero, zero)
        words[0, i], words[1, i], words[2, i], words[3, i] = a, b, c, d


@compiled
def philox(key: np.uint64, a: np.uint64, b: np.uint64, c: np.uint64, d: np.uint64) -> Words:
    """Four random words, below 2^32 like the words a, b, c, d of the counter."""
    key_a, key_b = key & _LOW, key >> _BITS
    for _ in range(10):
        by_a, by_b = _FACTOR_A * a, _FACTOR_B * c
        a, c = (by_b >> _BITS) ^ b ^ key_a, (by_a >> _BITS) ^ d ^ key_b
        b, d = by_b & _LOW, by_a & _LOW
        key_a, key_b = (key_a + _STEP_A) & _LOW, (key_b + _STEP_B) & _LOW
    return a, b, c, d


@compiled
def box_muller(
    radii: NDArray[np.uint32], angles: NDArray[np.uint32], first: Numbers, second: Numbers
) -> None:
    """Two normal numbers from each two words, by Box and Muller's method."""
    for i in range(len(first)):
        radius = math.sqrt(_MINUS_TWO * _log(np.float32(radii[i]) * _WORD + _HALF_WORD))
        cosine, sine = _turn(angles[i])
        first[i], second[i] = radius * cosine, radius * sine


@compiled
def _log(x: np.float32) -> np.float32:
    """The natural logarithm of a positive number."""
    bits = np.float32(x).view(np.int32)
    exponent = np.int32((bits - _SQRT_HALF_BITS) >> _SIGNIFICAND_BITS)
    # What is left of x after the power of two lies between sqrt(1/2) and sqrt(2).
    beyond = np.int32(bits - (exponent << _SIGNIFICAND_BITS)).view(np.float32) - _ONE
    sum_of_powers = _LOG[0]
    for factor in _LOG[1:]:
        sum_of_powers = sum_of_powers * beyond + factor
    sum_of_powers = (sum_of_powers * beyond - _HALF) * (beyond * beyond) + beyond
    logarithm: np.float32 = np.float32(exponent) * _LN_2 + sum_of_powers
    return logarithm


@compiled
def _turn(word: np.uint32) -> tuple[np.float32, np.float32]:
    """Cosine and sine of the angle of a word."""
    # Up to an eighth of a turn from the nearest quarter, where the polynomials hold.
    quarter = np.uint32(word + _EIGHTH) >> _QUARTER_BITS
    angle = np.float32(np.int32(word - (quarter << _QUARTER_BITS))) * _ANGLE
    sq_angle = angle * angle
    sine = ((_SIN[0] * sq_angle + _SIN[1]) * sq_angle + _SIN[2]) * sq_angle * angle + angle
    cosine = (_COS[0] * sq_angle + _COS[1]) * sq_angle + _COS[2]
    cosine = (cosine * sq_angle - _HALF) * sq_angle + _ONE
    x, y = (sine, cosine) if quarter & 1 else (cosine, sine)
    return -x if (quarter + 1) & 2 else x, -y if quarter & 2 else y
