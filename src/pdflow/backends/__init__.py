"""Backends: how many patches go through a network.

A backend is a network prepared for one way to compute. The pipeline asks for one per run, and
calls `run` once for every piece of a cloud. All backends compute the function that `pdflow.flow`
and `PDFlow.denoise_patches` define, up to rounding; tests/contracts/test_backends.py checks each.

    compiled   numba loops, one patch per core; networks on a CPU
    torch      batches of patches on the network's own device; GPUs

Register another one to use it for a kind of device:

    register_backend("mine", MyBackend, device="cuda")
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from pdflow.backends.draws import EpsDraws
from pdflow.errors import PdflowError
from pdflow.model import PDFlow

Progress = Callable[[float], None]
Points = NDArray[np.float32]


class Backend(Protocol):
    """A network that is ready to denoise patches."""

    def run(
        self,
        patches: Points,
        eps: EpsDraws | None,
        sigma: NDArray[np.float64] | None,
        progress: Progress,
    ) -> Points:
        """Clean patches (P, N, 3) from noisy ones, in the network's frame, in single precision.

        eps       draws of the extra dimensions; None takes their mean, eps = 0
        sigma     (P,) noise of the patches in that frame, for networks with noise conditioning
        progress  is called with the number of patches done since the last call
        """
        ...


def _compiled(model: PDFlow) -> Backend:
    from pdflow.backends.compiled.backend import CompiledBackend

    return CompiledBackend(model)


def _torch(model: PDFlow) -> Backend:
    from pdflow.backends.batches import TorchBackend

    return TorchBackend(model)


BACKENDS: dict[str, Callable[[PDFlow], Backend]] = {"compiled": _compiled, "torch": _torch}
"""What makes each backend from a network."""

_FOR_DEVICE = {"cpu": "compiled"}


def register_backend(
    name: str, make: Callable[[PDFlow], Backend], device: str | None = None
) -> None:
    """Add a backend; networks on this kind of device ("cpu", "cuda", ...) use it from now on."""
    BACKENDS[name] = make
    if device is not None:
        _FOR_DEVICE[device] = name


def make_backend(model: PDFlow, name: str | None = None) -> Backend:
    """The named backend of a network, or the one for the device that it is on."""
    if name is None:
        name = _FOR_DEVICE.get(next(model.parameters()).device.type, "torch")
    if name not in BACKENDS:
        raise PdflowError(f"There is no backend {name!r}: choose one of {', '.join(BACKENDS)}.")
    return BACKENDS[name](model)
