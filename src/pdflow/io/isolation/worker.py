"""The process that decodes one file and answers on its standard streams. It may die at any time."""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from pdflow.cloud import PointCloud
from pdflow.errors import LossWarning, MissingExtraError, PdflowError
from pdflow.io.isolation import FACES
from pdflow.io.npz import ARRAYS
from pdflow.io.npz import write as write_npz
from pdflow.io.stream import MemoryReader, Reader


def serve() -> None:
    """Answer questions until there are no more."""
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # the parent gets Ctrl-C too, and ends this process
    path, module, output = sys.argv[1:]
    decoder = _Decoder(Path(path), module, Path(output))
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer
    for line in sys.stdin:
        answers.write(json.dumps(decoder.answer(json.loads(line))) + "\n")
        answers.flush()


class _Decoder:
    """Answers questions about a file."""

    def __init__(self, path: Path, module: str, output: Path) -> None:
        self._path, self._module, self._output = path, module, output
        self._reader: Reader = Reader()
        self._chunks: Iterator[PointCloud] = iter(())
        self._actions: dict[str, Callable[..., dict[str, Any]]] = {
            "open": self._open,
            "chunks": self._begin,
            "next": self._next,
            "mesh": self._mesh,
        }

    def answer(self, question: dict[str, Any]) -> dict[str, Any]:
        """What the question asks for, or the sentence why not."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                answer = self._actions[question.pop("do")](**question)
            except PdflowError as error:
                missing = isinstance(error, MissingExtraError)
                answer = {"error": str(error), "missing": missing}
        told = [str(w.message) for w in caught if issubclass(w.category, LossWarning)]
        return {**answer, "warnings": told}

    def _open(self) -> dict[str, Any]:
        module = importlib.import_module(self._module)
        streams = hasattr(module, "open_reader")
        self._reader = (
            module.open_reader(self._path) if streams else MemoryReader(module.read(self._path))
        )
        header = self._reader.header
        columns = {
            name: np.zeros((0, kind.width) if kind.width else 0, kind.dtype)
            for name, kind in header.fields.items()
        }
        write_npz(self._output, PointCloud(np.zeros((0, 3)), columns, header.metadata))
        return {"streams": streams, "count": header.count, "point_dtype": header.point_dtype.str}

    def _begin(self, size: int) -> dict[str, Any]:
        self._chunks = self._reader.chunks(size)
        return self._next()

    def _next(self) -> dict[str, Any]:
        chunk = next(self._chunks, None)
        if chunk is not None:
            write_npz(self._output, PointCloud(chunk.points, chunk.attributes))
        return {"more": chunk is not None}

    def _mesh(self) -> dict[str, Any]:
        mesh = importlib.import_module(self._module).read_mesh(self._path)
        write_npz(self._output, PointCloud(mesh.vertices, {}, {ARRAYS: {FACES: mesh.faces}}))
        return {}
