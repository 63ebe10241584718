"""Rivals: learned methods of other authors, run from files that a user downloaded.

Nothing of theirs is part of this package. An environment variable names a clone of their
repository; their network runs from there, with our stand-ins for the CUDA packages that it imports
(`stand_ins`). Cutting patches and stitching them is our code (`patchwise`), with their settings.
`docs/howto/method.md` lists what is replaced and which figures to expect.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pdflow.bench.cases import Case
from pdflow.bench.methods import Method, Output, blaming
from pdflow.bench.rivals.patchwise import Patching, denoise_by_patches
from pdflow.errors import PdflowError
from pdflow.geometry.frame import unit_sphere

if TYPE_CHECKING:
    from pdflow.bench.rivals.patchwise import Network


@dataclass(frozen=True)
class Files:
    """What was downloaded: the folder of a repository, and its weight files."""

    folder: Path
    weights: tuple[Path, ...]


@dataclass(frozen=True)
class Rival:
    """A method of other authors.

    variable  environment variable that names a clone of their repository; the variable with
              `_WEIGHTS` added may name another file instead of the first of `weights`
    source    where to clone it from
    code      the module of the clone that defines the network, as a path
    weights   files in the clone
    load      (files, device) -> a function from patches (B, N, 3) to clean ones
    patching  their settings
    levels    noise levels, in radii of the bounding sphere, beyond which one more pass is run
    """

    name: str
    variable: str
    source: str
    code: str
    weights: tuple[str, ...]
    load: Callable[[Files, str], Network]
    patching: Patching
    levels: tuple[float, ...] = ()

    def files(self) -> Files:
        """The downloaded files, or an error that says which one is missing."""
        named = os.environ.get(self.variable, "")
        if not named:
            raise PdflowError(f"set {self.variable} to a clone of {self.source}")
        folder = Path(named)
        first = os.environ.get(f"{self.variable}_WEIGHTS", "") or folder / self.weights[0]
        weights = (Path(first), *(folder / other for other in self.weights[1:]))
        for path in (folder / self.code, *weights):
            if not path.is_file():
                raise PdflowError(
                    f"there is no file {path}; {self.variable} must name a clone of {self.source}"
                )
        return Files(folder, weights)

    def passes(self, level: float) -> int:
        """Passes for a noise level in radii of the bounding sphere."""
        return 1 + sum(level > limit for limit in self.levels)


def _pd_lts_light(files: Files, device: str) -> Network:
    from pdflow.bench.rivals.networks import pd_lts_light

    return pd_lts_light(files.folder, files.weights[0], device)


def _straightpcf(files: Files, device: str) -> Network:
    from pdflow.bench.rivals.networks import straightpcf

    return straightpcf(files.folder, files.weights[0], files.weights[1], device)


def _score_denoise(files: Files, device: str) -> Network:
    from pdflow.bench.rivals.networks import score_denoise

    return score_denoise(files.folder, files.weights[0], device)


RIVALS = (
    Rival(
        "pd-lts-light",
        "PDFLOW_PD_LTS",
        "https://github.com/yanbiao1/PD-LTS",
        "models/model_light/denoise.py",
        ("product/ckpt/Denoiseflow-light-FBM.ckpt",),
        _pd_lts_light,
        Patching(1024, overlap=5, batch=48),
    ),
    Rival(
        "straightpcf",
        "PDFLOW_STRAIGHTPCF",
        "https://github.com/ddsediri/StraightPCF",
        "models/straightpcf.py",
        ("pretrained_straightpcf/ckpt_straightpcf.pt", "pretrained_cvm/ckpt_cvm.pt"),
        _straightpcf,
        Patching(1000, overlap=6, batch=10),
        (0.015, 0.025),
    ),
    Rival(
        "score-denoise",
        "PDFLOW_SCORE_DENOISE",
        "https://github.com/luost26/score-denoise",
        "models/denoise.py",
        ("pretrained/ckpt.pt",),
        _score_denoise,
        Patching(1000, overlap=3, batch=10, centred=False, resampled=True),
        (0.025,),
    ),
)
"""Their settings are those of the commands in their READMEs, as are the passes at 1, 2 and 3 %."""


def rivals() -> list[Method]:
    """All rivals, downloaded or not."""
    return [rival_method(rival) for rival in RIVALS]


def named_rival(spec: str) -> Method | None:
    """The method of a name NAME or NAME:PASSES, or None if no rival has that name.

    >>> named_rival("straightpcf:2").name
    'straightpcf:2'
    """
    name, _, passes = spec.partition(":")
    known = {rival.name: rival for rival in RIVALS}
    if name not in known or (passes and not passes.isdecimal()) or passes == "0":
        return None
    return rival_method(known[name], int(passes) if passes else None)


def rival_method(rival: Rival, passes: int | None = None) -> Method:
    """A rival as a method; without `passes`, our estimate of the noise decides on them."""
    name = f"{rival.name}:{passes}" if passes else rival.name
    try:
        files, missing = rival.files(), None
    except PdflowError as error:
        files, missing = None, str(error)

    def load() -> Network:
        from pdflow.device import named_device

        with blaming(name, "load"):
            return rival.load(rival.files(), named_device(None))

    def denoise(network: Network, case: Case) -> Output:
        count = passes or rival.passes(case.scale.noise / unit_sphere(case.noisy).scale)
        with blaming(name, "denoise"):
            points = denoise_by_patches(case.noisy, network, rival.patching, count)
        if not np.isfinite(points).all():
            raise PdflowError(f"{name}: its network returned values that are not finite.")
        return Output(points, f"{count}x1")

    settings: dict[str, Any] = {**asdict(rival.patching), "passes": passes}
    if files is not None:
        settings["weights"] = [_sha256(path) for path in files.weights]
    return Method(name, "peer", load, denoise, settings, missing=missing)


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
