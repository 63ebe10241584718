"""Which device to compute on, what to say when it cannot be used, and threads after a fork."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pdflow.errors import PdflowError

if TYPE_CHECKING:
    import torch


def best_device() -> str:
    """The device to use when the user names none."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def named_device(name: str | torch.device | None) -> str:
    """The device that a user names; "gpu" means cuda, and None the best there is.

    >>> named_device("gpu"), named_device("cpu")
    ('cuda', 'cpu')
    """
    if name is None:
        return best_device()
    return "cuda" if str(name).lower() == "gpu" else str(name)


@contextmanager
def using_device(device: object) -> Iterator[None]:
    """Turn the errors that torch raises on an unusable device into one sentence.

    device  the name or torch.device that the block moves tensors to
    """
    try:
        yield
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        first = str(error).splitlines()[0]
        raise PdflowError(
            f"Device {str(device)!r} cannot be used ({first}): choose cpu, or leave it out."
        ) from error


def _use_one_thread() -> None:
    """Keep torch to one thread in a forked process, as the workers of its DataLoader do.

    A loop of torch would wait for the threads of the parent for ever.
    """
    torch = sys.modules.get("torch")
    if hasattr(torch, "set_num_threads"):
        torch.set_num_threads(1)  # type: ignore[union-attr]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_use_one_thread)
