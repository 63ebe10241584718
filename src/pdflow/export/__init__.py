"""The network of patches for other runtimes: ONNX, and torch.export.

    points (B, N, 3), sigma (B,)  ->  clean (B, N, 3)

Everything is float32 and in the frame of a patch. B and N are free; N is at least the number of
neighbours of the network. Only networks with noise conditioning have the input sigma. What a loop
around it must know is in the metadata of the file (`metadata`), and docs/export.md has such a loop.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from pdflow import __version__
from pdflow.errors import PdflowError
from pdflow.export.formats import FORMATS
from pdflow.export.network import PatchNetwork
from pdflow.io import atomic_path
from pdflow.model import PDFlow

__all__ = ["export_model", "metadata"]

LARGEST_DIFFERENCE = 1e-4
"""To the network itself, in the frame of a patch; a file that differs more is not kept."""


def export_model(path: str | Path, model: PDFlow) -> float:
    """Write a network for another runtime, atomically; the suffix .onnx or .pt2 says which.

    returns  the largest difference to the network itself, in the frame of a patch
    """
    path = Path(path)
    if path.suffix not in FORMATS:
        known = " or ".join(FORMATS)
        raise PdflowError(f"{path} has the suffix {path.suffix!r}: name a file with {known}.")
    fmt = FORMATS[path.suffix]
    fmt.require()
    network = PatchNetwork(model)
    with atomic_path(path) as temporary:
        with _quiet(), torch.enable_grad():
            program = network.program(*example(network, batch=2))
            fmt.write(program, temporary, metadata(model))
            run = fmt.load(temporary)
        difference = _difference(network, run)
        if not difference <= LARGEST_DIFFERENCE:
            raise PdflowError(
                f"{path} would differ from the network by {difference:.1e}, more than "
                f"{LARGEST_DIFFERENCE:g}: report it with the versions of torch and onnxruntime."
            )
    return difference


def metadata(model: PDFlow) -> dict[str, str]:
    """What a loop around the network must know, as text.

    patch_points        N of training patches
    patch_radius        radius that a patch with N points is scaled to, smallest and largest
    centred             whether the seed is at the origin, and patches lie along their axes
    noise_conditioning  whether there is an input sigma, the noise over the scale of the patch
    conditioning_scale  factor on the noise for a first pass

    >>> from pdflow.weights import load_model
    >>> told = metadata(load_model("pdflow-fbm"))
    >>> told["patch_points"], told["patch_radius"], told["noise_conditioning"]
    ('1024', '4 4', 'false')
    """
    inference = model.inference
    return {
        "pdflow": __version__,
        "patch_points": str(model.config.patch_points),
        "patch_radius": " ".join(f"{radius:g}" for radius in inference.patch_radius),
        "centred": str(inference.centred).lower(),
        "noise_conditioning": str(model.config.noise_conditioning).lower(),
        "conditioning_scale": f"{inference.conditioning_scales[0]:g}",
    }


def example(network: PatchNetwork, batch: int) -> tuple[Tensor, Tensor | None]:
    """Patches (B, N, 3) of a bent surface with noise, in the network's frame, and their sigma."""
    config, inference = network.model.config, network.model.inference
    rng = np.random.default_rng(0)
    points = rng.normal(size=(batch, config.patch_points, config.point_dims))
    points[..., -1] = 0.1 * points[..., -1] + 0.3 * points[..., 0] ** 2
    points *= inference.patch_radius[1] / np.linalg.norm(points, axis=2).max(axis=1)[:, None, None]
    patches = torch.from_numpy(points).float()
    sigma = torch.linspace(0.02, 0.05, batch) * inference.patch_radius[1]
    return patches, sigma if config.noise_conditioning else None


def _difference(network: PatchNetwork, run: Callable[[Tensor, Tensor | None], Tensor]) -> float:
    """The largest one for another number of patches than the file was made with."""
    patches, sigma = example(network, batch=3)
    with torch.inference_mode():
        expected = network.model.denoise_patches(patches, sigma=sigma)
    return float((run(patches, sigma) - expected).abs().max())


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep torch from telling what it does step by step."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
