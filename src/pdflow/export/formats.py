"""Files that a traced network is written to, and how each is run again to compare it."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.export import ExportedProgram

from pdflow.lazy import require

Run = Callable[[Tensor, Tensor | None], Tensor]
"""(points, sigma) -> clean, like `PatchNetwork`."""


class Format(NamedTuple):
    """How a file is written, how it is loaded to run, and the modules of an extra for both."""

    write: Callable[[ExportedProgram, Path, Mapping[str, str]], None]
    load: Callable[[Path], Run]
    needs: tuple[str, ...] = ()

    def require(self) -> None:
        """Ask for the extra before long work begins."""
        for module in self.needs:
            require(module, extra="onnx", purpose="Exporting to ONNX")


def _write_onnx(program: ExportedProgram, path: Path, metadata: Mapping[str, str]) -> None:
    has_sigma = metadata["noise_conditioning"] == "true"
    exported: Any = torch.onnx.export(
        program,
        input_names=["points", "sigma"] if has_sigma else ["points"],
        output_names=["clean"],
        # Only the names: the sizes are free already.
        dynamic_shapes={
            "points": {0: "batch", 1: "points"},
            "sigma": {0: "batch"} if has_sigma else None,
        },
        dynamo=True,
        verbose=False,
    )
    exported.model.metadata_props.update(metadata)
    exported.save(path)


def _load_onnx(path: Path) -> Run:
    import onnxruntime

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])

    def run(points: Tensor, sigma: Tensor | None) -> Tensor:
        inputs = {"points": points.numpy()} | ({} if sigma is None else {"sigma": sigma.numpy()})
        return torch.from_numpy(session.run(None, inputs)[0])

    return run


def _write_program(program: ExportedProgram, path: Path, metadata: Mapping[str, str]) -> None:
    # In memory first: torch's own writer ends the process on a full disk.
    content = io.BytesIO()
    torch.export.save(program, content, extra_files={"pdflow.json": json.dumps(dict(metadata))})
    path.write_bytes(content.getbuffer())


def _load_program(path: Path) -> Run:
    module: Any = torch.export.load(path).module()
    return lambda points, sigma: module(points, sigma)


FORMATS = {
    ".onnx": Format(_write_onnx, _load_onnx, ("onnx", "onnxscript", "onnxruntime")),
    ".pt2": Format(_write_program, _load_program),
}
"""By suffix."""
