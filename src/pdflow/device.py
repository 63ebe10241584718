"""Which device to compute on, and what to say when it cannot be used."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pdflow.errors import PdflowError
from pdflow.parallel import is_forked

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


@contextmanager
def one_thread_after_fork() -> Iterator[None]:
    """Keep torch to one thread in a forked process, in a block or a decorated function.

    A loop of torch waits for the threads of the parent, which do not exist in the child, for ever.
    """
    if not is_forked():
        yield
        return
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
