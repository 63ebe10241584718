"""Our models as methods: MODEL, MODEL:MODE or MODEL:MODE:PASSES.

pdflow, pdflow:points            the shipped model, every point keeps its row
pdflow:resample                  the same model, evenly resampled
run/model.safetensors:points:1   any weight file, one pass
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import fields
from pathlib import Path
from typing import Literal, cast

from pdflow.bench.cases import Case
from pdflow.bench.methods import DIGEST_LENGTH, Method, Output
from pdflow.cloud import PointCloud
from pdflow.device import named_device
from pdflow.model import PDFlow
from pdflow.pipeline.denoise import MODES, Denoiser, Mode
from pdflow.weights import load_model, released_models

_SPEC = re.compile(rf"(?P<model>.+?)(:(?P<mode>{'|'.join(MODES)}))?(:(?P<passes>\d+))?")


def shipped_methods() -> list[Method]:
    """Every shipped model in every mode."""
    return [model_method(f"{name}:{mode}") for name in released_models() for mode in MODES]


def is_model(spec: str) -> bool:
    """Whether a name is a shipped model or an existing weight file, with or without a mode."""
    match = _SPEC.fullmatch(spec)
    assert match is not None or not spec
    name = match["model"] if match else ""
    return name in released_models() or Path(name).is_file()


def model_method(spec: str, device: str | None = None) -> Method:
    """The method for a specification; its name is always MODEL:MODE[:PASSES]."""
    match = _SPEC.fullmatch(spec)
    assert match is not None
    model = load_model(match["model"], named_device(device))
    mode, passes = cast(Mode, match["mode"] or MODES[0]), match["passes"]
    name = ":".join([Path(match["model"]).stem, mode, *([passes] if passes else [])])
    return network_method(name, model, mode, int(passes) if passes else "auto")


def network_method(
    name: str,
    model: PDFlow,
    mode: Mode,
    iterations: int | Literal["auto"] = "auto",
    partitions: int | Literal["auto"] = "auto",
    max_move: float | None = None,
    seed: int | None = None,
) -> Method:
    """A loaded network as a method; mode and the numbers are those of `Denoiser`."""

    def denoise(denoiser: Denoiser, case: Case) -> Output:
        done = denoiser(PointCloud(case.noisy))
        report = done.report
        coarse = f"+{report.coarse_partitions}" if report.coarse_partitions else ""
        return Output(done.cloud.points, f"{report.iterations}x{report.partitions}{coarse}")

    weights = weights_digest(model)
    settings = {"weights": weights, "mode": mode, "iterations": iterations}
    if partitions != "auto":
        settings["parts"] = partitions  # the key is part of the hash that stored results carry
    if seed is not None:
        settings["seed"] = seed
    return Method(
        name,
        "ours",
        lambda: Denoiser(
            model,
            mode=mode,
            iterations=iterations,
            partitions=partitions,
            max_move=max_move,
            seed=seed,
        ),
        denoise,
        settings,
        {
            "parameters": sum(p.numel() for p in model.parameters()),
            "weights": weights[:DIGEST_LENGTH],
            **({"device": "cuda"} if next(model.parameters()).is_cuda else {}),
        },
    )


def weights_digest(model: PDFlow) -> str:
    """SHA-256 of configs and tensors: the same for the same network, wherever its file lies.

    Settings count where they differ from the defaults, so that a new one changes no digest.
    """
    configs = (model.config, model.inference)
    changed = [
        {f.name: getattr(c, f.name) for f in fields(c) if getattr(c, f.name) != f.default}
        for c in configs
    ]
    digest = hashlib.sha256(json.dumps(changed, sort_keys=True).encode())
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()
