"""Which dtype holds which values exactly, and casts that refuse to change a number."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdflow.errors import PdflowError


def storage_dtype(
    dtype: np.dtype[Any],
    allowed: Iterable[np.dtype[Any]],
    values: NDArray[Any] | None = None,
) -> np.dtype[Any] | None:
    """The dtype among `allowed` that stores `dtype` without loss; None if there is none.

    >>> ply = [np.dtype(t) for t in ("i1", "u1", "i2", "u2", "i4", "u4", "f4", "f8")]
    >>> storage_dtype(np.dtype("f2"), ply), storage_dtype(np.dtype("i8"), ply, np.array([70000]))
    (dtype('float32'), dtype('int32'))
    """
    native: np.dtype[Any] = dtype.newbyteorder("=")
    candidates = sorted(allowed, key=lambda d: (d.kind == "f", d.itemsize, d.kind != native.kind))
    if native in candidates:
        return native
    if dtype.kind not in "biuf":
        return None
    if dtype.kind in "bf":
        candidates = [d for d in candidates if d.kind in ("u" if dtype.kind == "b" else "f")]
    for candidate in candidates:
        if always_exact(native, candidate):
            return candidate
        if values is not None and values.size and is_exact(values, candidate):
            return candidate
    double = np.dtype(np.float64)
    known = values is not None and values.size
    return double if dtype.kind in "iu" and double in candidates and not known else None


def always_exact(source: np.dtype[Any], target: np.dtype[Any]) -> bool:
    """Whether `target` holds every value of `source` exactly.

    >>> always_exact(np.dtype("u1"), np.dtype("f4")), always_exact(np.dtype("i8"), np.dtype("f8"))
    (True, False)
    """
    if source.kind in "iu" and source.itemsize == 8 and target.kind == "f":
        return False  # numpy calls this cast safe, but float64 has only 53 bits
    return np.can_cast(source, target, "safe")


def is_exact(values: NDArray[Any], target: np.dtype[Any]) -> bool:
    """Whether `target` holds each of these values exactly.

    >>> is_exact(np.array([2**53, 2**60]), np.dtype("f8"))
    True
    >>> is_exact(np.array([2**53 + 1]), np.dtype("f8"))
    False
    """
    if not values.size:
        return True
    if values.dtype.kind in "iu" and target.kind in "iu":
        limits = np.iinfo(target)
        return bool(limits.min <= int(values.min()) and int(values.max()) <= limits.max)
    with np.errstate(invalid="ignore", over="ignore"):
        there = values.astype(target)
        exact = there.astype(values.dtype) == values
    # Near the largest 64-bit integer a cast from float overflows, and the result depends on the
    # processor.
    if values.dtype.kind in "iu" and target.kind == "f":
        exact &= there < float(np.iinfo(values.dtype).max)
    elif values.dtype.kind == "f" and target.kind in "iu":
        exact &= values < float(np.iinfo(target).max) + 1
    elif values.dtype.kind == "f" and target.kind == "f":
        exact |= np.isnan(values)
    return bool(exact.all())


def assign_exactly(target: NDArray[Any], values: NDArray[Any], what: str) -> None:
    """Copy values into an array of another dtype; raise if an integer would change.

    Floats may be rounded: a decimal number means the nearest value of the narrower dtype.
    """
    if "f" not in target.dtype.kind + values.dtype.kind or target.dtype.kind != values.dtype.kind:
        exact = always_exact(values.dtype, target.dtype) or is_exact(values, target.dtype)
        if not exact:
            raise PdflowError(
                f"The values of {what} do not fit {target.dtype.name}: store them in another "
                "dtype, or remove the comment 'pdflow columns' from a file that was edited since."
            )
    with np.errstate(over="ignore"):
        target[...] = values


def cast_exactly(values: NDArray[Any], dtype: np.dtype[Any], what: str) -> NDArray[Any]:
    """The values themselves if they have this dtype, or else a copy by `assign_exactly`."""
    if values.dtype == dtype:
        return values
    target = np.empty(values.shape, dtype)
    assign_exactly(target, values, what)
    return target
