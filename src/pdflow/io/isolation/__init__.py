"""Decode files in a process that may die: native code at arm's length.

lazrs (Rust), libE57 (C++) and the image decoders behind glTF get files that strangers made. A bug
in one of them ends the process or worse. Here a worker process decodes, and hands over arrays in
NPZ files, which are checked like any other file; no pickle passes. A crash or a hang of the worker
is one sentence. Starting it takes a third of a second.

`PDFLOW_ISOLATE=1` makes `pdflow.io.read`, `open_reader` and `read_mesh` do this for formats with
native decoders; `pdflow.io.read_isolated` does it for any format.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from pdflow.cloud import PointCloud
from pdflow.errors import LossWarning, MissingExtraError, PdflowError
from pdflow.io.npz import read as read_npz
from pdflow.io.registry import ISOLATE, Format
from pdflow.io.stream import CHUNK, Header, MemoryReader, Reader, fields_of
from pdflow.mesh import TriangleMesh

PATIENCE = 60.0
"""Seconds without an answer after which a worker counts as hanging; for each megabyte of the file
one more."""

FACES = "faces"
"""The array with the faces of a mesh, among the metadata of its vertices."""


def open_isolated(path: Path, fmt: Format) -> Reader:
    """Open a file whose points a worker decodes."""
    reader = _IsolatedReader(path, fmt)
    if reader.streams:
        return reader
    with reader:
        empty = PointCloud(np.zeros((0, 3)), reader.empty.attributes, reader.header.metadata)
        return MemoryReader(PointCloud.concatenate([empty, *reader.chunks()]))


def read_mesh_isolated(path: Path, fmt: Format) -> TriangleMesh:
    """Read a mesh that a worker decodes."""
    worker = _Worker(path, fmt)
    try:
        worker.ask(do="mesh")
        cloud = worker.take()
        return TriangleMesh(cloud.points, cloud.metadata["arrays"][FACES])
    except KeyError as error:
        raise worker.lost() from error
    finally:
        worker.stop()


class _IsolatedReader(Reader):
    """A Reader whose chunks come from a worker.

    streams  whether the format is read in chunks
    empty    a cloud without points, with the attributes of the file
    """

    def __init__(self, path: Path, fmt: Format) -> None:
        self._worker = _Worker(path, fmt)
        try:
            answer = self._worker.ask(do="open")
            self.empty = self._worker.take()
            self.streams = bool(answer["streams"])
            self.header = Header(
                None if answer["count"] is None else int(answer["count"]),
                fields_of(self.empty),
                self.empty.metadata,
                np.dtype(str(answer["point_dtype"])),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise self._worker.lost() from error
        except BaseException:
            self._worker.stop()
            raise

    def chunks(self, size: int = CHUNK) -> Iterator[PointCloud]:
        """Clouds of at most `size` points, in file order."""
        answer = self._worker.ask(do="chunks", size=size)
        while answer.get("more"):
            chunk = self._worker.take()
            if fields_of(chunk) != self.header.fields:
                raise self._worker.lost()
            yield PointCloud(chunk.points, chunk.attributes, self.header.metadata)
            answer = self._worker.ask(do="next")

    def close(self) -> None:
        """End the worker."""
        self._worker.stop()


class _Worker:
    """The process that decodes a file: asked in lines of JSON, it answers with lines and a file."""

    def __init__(self, path: Path, fmt: Format) -> None:
        self._path = path
        self._patience = PATIENCE + path.stat().st_size / 1e6
        self._folder = tempfile.TemporaryDirectory(prefix="pdflow-", ignore_cleanup_errors=True)
        self._file = Path(self._folder.name, "arrays.npz")
        self._hangs = False
        words = [str(path.absolute()), fmt.module, str(self._file)]
        start = "from pdflow.io.isolation.worker import serve; serve()"
        self._process = subprocess.Popen(
            [sys.executable, "-c", start, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # where a panic would print
            env={**os.environ, ISOLATE: "", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )

    def ask(self, **question: Any) -> dict[str, Any]:
        """The answer to a question; its errors and warnings are raised and given here."""
        stream, answers = self._process.stdin, self._process.stdout
        assert stream is not None
        assert answers is not None
        alarm = threading.Timer(self._patience, self._give_up)
        alarm.daemon = True
        alarm.start()
        try:
            stream.write(json.dumps(question).encode() + b"\n")
            stream.flush()
            answer = json.loads(answers.readline())
        except (OSError, ValueError) as error:
            raise self.lost() from error
        finally:
            alarm.cancel()
        if not isinstance(answer, dict):
            raise self.lost()
        for sentence in answer.get("warnings", ()):
            warnings.warn(str(sentence), LossWarning, stacklevel=5)
        if "error" in answer:
            kind = MissingExtraError if answer.get("missing") else PdflowError
            raise kind(str(answer["error"]))
        return answer

    def take(self) -> PointCloud:
        """The arrays of the last answer."""
        try:
            cloud = read_npz(self._file)
            self._file.unlink()
        except (PdflowError, OSError) as error:
            raise self.lost() from error
        return cloud

    def lost(self) -> PdflowError:
        """End the worker; the sentence for a worker that does not answer as it should."""
        self._process.kill()
        code = self._process.wait()
        self.stop()
        how = f"gave no answer for {self._patience:.0f} s" if self._hangs else "crashed"
        signal = f" (signal {-code})" if code < 0 and not self._hangs else ""
        return PdflowError(
            f"{self._path}: its decoder {how}{signal} and was stopped: the file is damaged or was "
            "made to do so; do not open it elsewhere."
        )

    def stop(self) -> None:
        """End the worker, and remove its files."""
        self._process.kill()
        self._process.communicate()
        self._folder.cleanup()

    def _give_up(self) -> None:
        self._hangs = True
        self._process.kill()
