from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from pdflow.kernels.normal import cpu

ONES = 0xFFFFFFFF
KNOWN = [
    ((0, 0), (0, 0, 0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((ONES, ONES), (ONES, ONES, ONES, ONES), (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0xA4093822, 0x299F31D0),
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]
"""Keys, counters and words that the authors of Philox published (kat_vectors of Random123)."""


def drawn(key: int, count: int) -> np.ndarray:
    numbers = np.empty(count, np.float32)
    cpu.fill(np.uint64(key), numbers)
    return numbers


def exact(radii: np.ndarray, angles: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Box and Muller's method in float64."""
    shares = (radii.astype(np.float32) * np.float32(2**-32) + np.float32(2**-33)).astype(float)
    assert shares.min() > 0
    assert shares.max() <= 1
    radius, angle = np.sqrt(-2 * np.log(shares)), angles.astype(float) * 2 * np.pi / 2**32
    return radius * np.cos(angle), radius * np.sin(angle)


@pytest.mark.parametrize(("key", "counter", "words"), KNOWN)
def test_words_are_those_that_the_authors_published(
    key: tuple[int, int], counter: tuple[int, ...], words: tuple[int, ...]
) -> None:
    found = cpu.philox(np.uint64(key[0] | key[1] << 32), *map(np.uint64, counter))
    assert tuple(map(int, found)) == words


def test_numbers_come_from_the_words_of_their_group() -> None:
    key, zero = np.uint64(7 << 40 | 3), np.uint64(0)
    groups = [cpu.philox(key, np.uint64(group), zero, zero, zero) for group in range(1500)]
    a, b, c, d = np.array(groups, np.uint64).T
    expected = np.stack([*exact(a, b), *exact(c, d)], axis=1)
    np.testing.assert_allclose(drawn(int(key), 6000), expected.ravel(), atol=3e-6)


def test_any_words_give_finite_numbers() -> None:
    edges = [step * 2**29 + offset for step in range(9) for offset in (-1, 0, 1)]
    edges = [edge for edge in edges if 0 <= edge <= ONES]
    radii, angles = np.array([(v, w) for v in edges for w in edges], np.uint32).T.copy()
    found = np.empty((2, len(radii)), np.float32)
    cpu.box_muller(radii, angles, found[0], found[1])
    np.testing.assert_allclose(found, exact(radii, angles), atol=3e-6)
    assert 6.7 < found.max() < 6.8  # of word 0, whose logarithm would be infinite


@pytest.mark.parametrize("count", [0, 1, 2, 3, 5, 2048, 2051])
def test_a_number_depends_on_key_and_place_alone(count: int) -> None:
    numbers = drawn(3, count)
    assert np.array_equal(numbers, drawn(3, 5000)[:count])
    assert np.isfinite(numbers).all()


def test_a_million_numbers_are_normal() -> None:
    numbers = drawn(1, 1_000_000).astype(float)
    # Four standard errors each.
    assert abs(numbers.mean()) < 4e-3
    assert abs(numbers.var() - 1) < 4 * np.sqrt(2e-6)
    assert abs(stats.skew(numbers)) < 4 * np.sqrt(6e-6)
    assert abs(stats.kurtosis(numbers)) < 4 * np.sqrt(24e-6)
    assert stats.kstest(numbers, "norm").pvalue > 0.01
    for limit in (2, 3, 4):
        expected = 1e6 * stats.norm.sf(limit)
        for beyond in (np.sum(numbers > limit), np.sum(numbers < -limit)):
            assert abs(beyond - expected) < 4 * np.sqrt(expected)


def test_each_place_of_a_group_is_normal_by_itself() -> None:
    for numbers in drawn(2, 400_000).reshape(-1, 4).T:
        assert stats.kstest(numbers, "norm").pvalue > 0.01


def test_neighbours_are_not_correlated() -> None:
    numbers = drawn(4, 1_000_000).astype(float)
    for values in (numbers, numbers**2):  # radius and angle show in squares
        for gap in (1, 2, 3, 4, 61, 2048):
            assert abs(np.corrcoef(values[gap:], values[:-gap])[0, 1]) < 4e-3


def test_keys_are_not_correlated() -> None:
    near = [0, 1, 2, 1 << 32, 1 << 63]
    correlation = np.corrcoef([drawn(key, 200_000) for key in near])
    assert np.abs(correlation - np.eye(len(near))).max() < 4 / np.sqrt(200_000)
