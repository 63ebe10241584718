"""`pdflow export`: the network of patches as a file for other runtimes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pdflow.cli.options import AsJson, option
from pdflow.cli.progress import Result, say_results

NAME = "export"


def run(
    output: Annotated[
        Path, option("-o --output FILE", "File to write: .onnx, or .pt2 for torch.export.")
    ],
    model: Annotated[
        str, option("--model MODEL", "Name of a shipped model, or a weight file.")
    ] = "pdflow",
    as_json: AsJson = False,
) -> None:
    """Write the network for other runtimes.

    The file maps noisy patches to clean ones, with the search for neighbours inside, for any number
    of patches. It is compared with the network before it is kept.
    """
    from pdflow.export import export_model
    from pdflow.weights import load_model

    difference = export_model(output, load_model(model))
    result: Result = {
        "output": str(output),
        "model": model,
        "bytes": output.stat().st_size,
        "difference": difference,
    }
    say_results([result], as_json, _describe)


def _describe(result: Result) -> str:
    return (
        f"{result['output']}: {result['model']}, {result['bytes'] / 1e6:.1f} MB; differs from the "
        f"network by at most {result['difference']:.1e} in the frame of a patch"
    )
