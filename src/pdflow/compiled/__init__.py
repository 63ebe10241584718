"""One way to compile the hot loops: numba, without the GIL, kept on disk where possible.

Import this module late: it loads numba.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit

from pdflow.compiled.cache import LoopCache

Function = TypeVar("Function", bound=Callable[..., Any])

# Lets minima and maxima be vectorised. Sums are neither reordered nor fused, so that results are
# those of the same formula in numpy, bit for bit; it only asks for input without NaN.
_MATH = {"nnan", "nsz"}


def compiled(function: Function) -> Function:
    """Compile `function` on its first call; the machine code is kept for the next process.

    Where no folder can be written to (a read-only install and home), it is compiled anew in
    each process instead.
    """
    loop: Any = njit(nogil=True, fastmath=_MATH)(function)
    cache = LoopCache.of(function)
    if cache is not None:
        loop._cache = cache  # what cache=True sets, but with numba's own class
    return cast(Function, loop)


def inlined(function: Function) -> Function:
    """Compile `function` into every compiled loop that calls it.

    It may take functions as arguments and still be kept on disk as a part of those loops; numba
    does not keep a compiled function that is called with functions.
    """
    return cast(Function, njit(inline="always")(function))
