"""Weight files: safetensors with both configs and the provenance inside. No pickle is loaded.

The header holds JSON: "config" is a `FlowConfig`, "inference" an `InferenceConfig`, "provenance"
says how the weights were made. Files of the first layout ("format" pdflow-1) have all settings in
"config", some under other names; `load_model` reads them too.
"""

from __future__ import annotations

import json
import logging
from dataclasses import asdict, fields
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from pdflow.config import MOVED_SETTINGS, FlowConfig, InferenceConfig
from pdflow.device import using_device
from pdflow.errors import PdflowError
from pdflow.io import atomic_path
from pdflow.io.damage import reason
from pdflow.model import PDFlow
from pdflow.weights.limits import AllocationLimit, check_depth

RELEASES = "released"
"""Folder beside this file with the weights that are shipped."""

LAYOUT = "pdflow-2"

_LOG = logging.getLogger(__name__)

CONVERT = (
    'python -c "import torch, safetensors.torch as s; '
    "t = torch.load('{}', 'cpu', weights_only=True); t = t.get('state_dict', t); "
    "s.save_file({{k: v.contiguous() for k, v in t.items()}}, '{}')\""
)
"""What turns tensors that PyTorch saved into safetensors; it refuses files that would run code."""

Config = TypeVar("Config", FlowConfig, InferenceConfig)


def released_models() -> list[str]:
    """Names of the shipped models, which `load_model` accepts."""
    folder = resources.files(__name__) / RELEASES
    if not folder.is_dir():
        return []
    return sorted(Path(f.name).stem for f in folder.iterdir() if f.name.endswith(".safetensors"))


def find_model(name_or_path: str | Path) -> Path:
    """The file of a shipped model, or the path itself."""
    if str(name_or_path) in released_models():
        return Path(str(resources.files(__name__) / RELEASES / f"{name_or_path}.safetensors"))
    try:
        return Path(name_or_path)
    except TypeError as error:
        known = ", ".join(released_models())
        sentence = f"{name_or_path!r} is not a model: give a file or a shipped name ({known})."
        raise PdflowError(sentence) from error


def load_model(name_or_path: str | Path, device: str | torch.device = "cpu") -> PDFlow:
    """A shipped model by its name, or any weight file by its path, ready for inference.

    >>> model = load_model("pdflow")
    >>> model.config.filter, model.config.patch_points
    ('lcc', 1024)
    """
    path = find_model(name_or_path)
    tensors, header = read_tensors(path)
    if "config" not in header:
        raise PdflowError(
            f"{path} holds no pdflow config: import the authors' weights with "
            "`pdflow import-weights` first."
        )
    try:
        config, inference = _configs(header, path)
        check_depth(config, tensors)
        with AllocationLimit(tensors):
            model = PDFlow(config, inference)
        model.load_state_dict(tensors)
    except (RuntimeError, ValueError, TypeError) as error:
        raise PdflowError(
            f"{path}: its tensors do not fit its config ({reason(error)}): write it again with "
            "`pdflow train` or `pdflow import-weights`."
        ) from error
    _LOG.info("model %s on %s", name_or_path, device)
    with using_device(device):
        return model.to(device).eval()


def save_model(path: str | Path, model: PDFlow, provenance: dict[str, Any]) -> None:
    """Write weights, both configs and provenance (recipe, seed, data hash, commit), atomically.

    >>> import tempfile
    >>> config = FlowConfig(edge_neighbours=(8, 0), augment_dims=5, hidden=8, patch_points=64)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_model(f"{folder}/tiny.safetensors", PDFlow(config), {"seed": 0})
    ...     load_model(f"{folder}/tiny.safetensors").config == config
    True
    """
    header = {
        "config": json.dumps(asdict(model.config)),
        "inference": json.dumps(asdict(model.inference)),
        "provenance": json.dumps(provenance),
        "format": LAYOUT,
    }
    tensors = {k: v.detach().cpu().contiguous() for k, v in model.state_dict().items()}
    write_tensors(Path(path), tensors, header)


def write_tensors(path: Path, tensors: dict[str, Tensor], header: dict[str, str]) -> None:
    """Write a safetensors file, atomically."""
    with atomic_path(path) as temporary:
        temporary.write_bytes(save(tensors, header))  # unlike `save_file`, it fails with OSError


def read_provenance(path: str | Path) -> dict[str, Any]:
    """How the weights in a file were made: recipe, seed, data hash, commit and more."""
    try:
        result: dict[str, Any] = json.loads(read_tensors(Path(path))[1].get("provenance", "{}"))
    except (ValueError, RecursionError) as error:
        raise PdflowError(f"{path}: its provenance is damaged: fetch the file again.") from error
    return result


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """All tensors of a safetensors file, and its header."""
    if not path.is_file():
        known = ", ".join(released_models()) or "none"
        raise PdflowError(f"No model {str(path)!r}: give a file or a shipped name ({known}).")
    try:
        with safe_open(path, framework="pt") as file:
            return {k: file.get_tensor(k) for k in file.keys()}, file.metadata() or {}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        if path.suffix != ".safetensors" and is_pickled(path):
            raise PdflowError(
                f"{path} is a PyTorch file, which pdflow does not open because it may run code: "
                f"convert it with `{CONVERT.format(path, path.with_suffix('.safetensors'))}`, then "
                "use `pdflow import-weights` if the authors of PD-Flow made it."
            ) from error
        raise PdflowError(
            f"{path} is not a safetensors file ({reason(error)}): give a file that pdflow wrote."
        ) from error


def is_pickled(path: Path) -> bool:
    """Whether a file looks like one of `torch.save`: a zip archive or a bare pickle."""
    with path.open("rb") as file:
        return file.read(2) in (b"PK", b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")


def _configs(header: dict[str, str], path: Path) -> tuple[FlowConfig, InferenceConfig]:
    """The two configs in a header of either layout."""
    config: dict[str, Any] = json.loads(header["config"])
    if "inference" in header or not isinstance(config, dict):
        inference = _checked(InferenceConfig, json.loads(header.get("inference", "{}")), path)
    else:
        moved = {new: config.pop(old) for old, new in MOVED_SETTINGS.items() if old in config}
        inference = _checked(InferenceConfig, moved, path)
        config["noise_unit"] = inference.patch_radius[1]
    return _checked(FlowConfig, config, path), inference


def _checked(kind: type[Config], values: dict[str, Any], path: Path) -> Config:
    if not isinstance(values, dict):
        raise PdflowError(f"{path}: its {kind.__name__} is damaged: fetch or write the file again.")
    unknown = sorted(values.keys() - {f.name for f in fields(kind)})
    if unknown:
        raise PdflowError(
            f"{path}: {kind.__name__} has no setting {unknown[0]!r}: load it with the version of "
            "pdflow that wrote it, or a newer one."
        )
    try:
        return kind(**values)
    except PdflowError as error:
        raise PdflowError(f"{path}: {error}") from error
