"""The rivals' networks, each built by its own code from its own files."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from torch import Tensor

from pdflow.bench.rivals.foreign import cuda_means, importing_from, loading_tensors
from pdflow.bench.rivals.patchwise import Network

PD_LTS_ABSENT = (
    "metric",
    "dataset",
    "modules.utils.score_utils",
    "kaolin",
    "knn_cuda",
    "sklearn",
    "torch_cluster",
    "tqdm",
)
"""What PD-LTS imports for training, for its own patches and for large clouds."""

SCORE_STEPS = {"denoise_knn": 4, "step_decay": 0.95, "num_steps": 30}
"""ScoreDenoise: default options of its command; the size of the first step is in its weights."""


def pd_lts_light(folder: Path, weights: Path, device: str) -> Network:
    """PD-LTS, the light network: patches (B, N, 3) around the origin to clean ones."""
    with importing_from(folder, PD_LTS_ABSENT), loading_tensors():
        network = import_module("models.model_light.denoise").get_denoise_net(str(weights))
    return _on(device, network, lambda patches: network(patches)[0])


def straightpcf(folder: Path, weights: Path, coupled: Path, device: str) -> Network:
    """StraightPCF; `coupled` are the weights of its two velocity modules, read for their sizes."""
    with importing_from(folder, ("torch_cluster",)), loading_tensors() as load:
        stored = load(weights)
        settings = stored["args"]
        settings.device, settings.cvm_ckpt = "cpu", str(coupled)
        network = import_module("models.straightpcf").StraightPCF(args=settings)
        network.load_state_dict(stored["state_dict"])
    return _on(device, network, lambda patches: network.denoise_langevin_dynamics(patches)[0])


def score_denoise(folder: Path, weights: Path, device: str) -> Network:
    """ScoreDenoise: 30 steps along the predicted score."""
    with importing_from(folder, ("torch_cluster",)), loading_tensors() as load:
        stored = load(weights)
        network = import_module("models.denoise").DenoiseNet(stored["args"])
        network.load_state_dict(stored["state_dict"])
    steps = {"step_size": stored["args"].ld_step_size, **SCORE_STEPS}
    return _on(
        device, network, lambda patches: network.denoise_langevin_dynamics(patches, **steps)[0]
    )


def _on(device: str, network: Any, call: Callable[[Tensor], Tensor]) -> Network:
    """A network on a device, as a function of patches that lie anywhere."""
    network.to(device).eval()

    def run(patches: Tensor) -> Tensor:
        with cuda_means(device):
            return call(patches.to(device))

    return run
