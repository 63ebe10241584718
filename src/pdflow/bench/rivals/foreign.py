"""Import modules of a downloaded repository without installing it or what it asks for."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import invalidate_caches
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from pdflow.bench.rivals.stand_ins import stand_in_modules
from pdflow.errors import PdflowError


class Absent(ModuleType):
    """A package that is not there; what is taken from it fails only when it is called."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)

        def fail(*_: Any, **__: Any) -> None:
            raise PdflowError(f"{self.__name__}.{name} has no stand-in")

        return type(name, (), {"__init__": fail})


class _Finder(MetaPathFinder, Loader):
    """Finds stand-ins, absent packages, and the top-level modules of one folder, in this order.

    The folder comes before the installed packages: `models` and `utils` are common names.
    """

    def __init__(self, folder: Path, absent: Sequence[str]) -> None:
        self.folder = folder
        self.provided = stand_in_modules()
        self.absent = (*absent, *{name.partition(".")[0] for name in self.provided})
        modules = [path.stem for path in folder.iterdir() if path.is_dir() or path.suffix == ".py"]
        self.names = {*modules, *(name.partition(".")[0] for name in self.absent)}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if any(fullname == name or fullname.startswith(f"{name}.") for name in self.absent):
            return ModuleSpec(fullname, self, is_package=True)
        if "." not in fullname and fullname in self.names:
            return PathFinder.find_spec(fullname, [str(self.folder)])
        return None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self.provided.get(spec.name) or Absent(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing is left to do."""


@contextmanager
def importing_from(folder: Path, absent: Sequence[str] = ()) -> Iterator[None]:
    """Let imports find the modules of a folder, and stand-ins for what they import.

    absent  further packages that the folder's modules import, but need not call

    Afterwards the program sees its own modules and paths again, and no file was written.
    """
    finder = _Finder(folder, absent)
    path, written = list(sys.path), sys.dont_write_bytecode
    before = {name: sys.modules.pop(name) for name in list(sys.modules) if _of(finder, name)}
    sys.meta_path.insert(0, finder)
    sys.dont_write_bytecode = True
    invalidate_caches()
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        sys.path[:], sys.dont_write_bytecode = path, written
        for name in [name for name in sys.modules if _of(finder, name)]:
            del sys.modules[name]
        sys.modules.update(before)


def _of(finder: _Finder, module: str) -> bool:
    return module.partition(".")[0] in finder.names


@contextmanager
def loading_tensors() -> Iterator[Callable[[Path], Any]]:
    """`torch.load` that reads tensors and settings to the CPU, and runs nothing from the file."""
    original = torch.load

    def load(file: Any, *_: Any, **__: Any) -> Any:
        with torch.serialization.safe_globals([Namespace]):
            return original(file, map_location="cpu", weights_only=True)

    torch.load = load  # type: ignore[assignment]
    try:
        yield load
    finally:
        torch.load = original


@contextmanager
def cuda_means(device: str) -> Iterator[None]:
    """Let `tensor.cuda()`, which some networks call, move to the device that they run on."""
    original = torch.Tensor.cuda

    def cuda(tensor: torch.Tensor, *_: Any, **__: Any) -> torch.Tensor:
        return tensor.to(device)

    torch.Tensor.cuda = cuda  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        torch.Tensor.cuda = original  # type: ignore[method-assign]
