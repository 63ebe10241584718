"""The process that libFuzzer runs in: `python engine.py FOLDER OPTIONS...`, started by guided.py.

The first byte of an input says its kind, so that one process can fuzz all of them.
"""

from __future__ import annotations

import importlib
import os
import resource
import sys
from pathlib import Path

from targets import KINDS, judge, seeds

NAMES = tuple(KINDS)

MODULES = [
    *("pdflow.cli.info", "pdflow.cli.convert", "pdflow.train.checkpoint", "pdflow.train.recipe"),
    *("pdflow.weights", "pdflow.config"),
    *(f"pdflow.io.{name}" for name in ("las", "e57", "ply", "text", "pcd")),
    *(f"pdflow.io.{name}" for name in ("npy", "npz", "off", "obj", "stl", "gltf")),
]
"""What is instrumented, with everything that it imports."""

COMPILED = ["pdflow.compiled", "pdflow.geometry", "pdflow.kernels", "pdflow.io.pcd.lzf"]
"""numba compiles only bytecode that it knows."""


def main() -> None:
    """Instrument pdflow and fuzz it; libFuzzer ends the process."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    import atheris

    with atheris.instrument_imports(include=["pdflow"], exclude=COMPILED):
        for module in MODULES:
            importlib.import_module(module)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    folder = Path(sys.argv[1])
    for kind in KINDS:
        judge(kind, seeds(kind)[0], folder)

    def one(data: bytes) -> None:
        if data:
            judge(NAMES[data[0] % len(NAMES)], data[1:], folder, len(data))

    atheris.Setup([sys.argv[0], *sys.argv[2:]], one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
