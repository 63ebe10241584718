"""Read training data from a folder, in any of the common layouts.

    ScoreDenoise   DIR/PUNet/pointclouds/train/RESOLUTION/NAME.xyz: clean clouds
    DMRDenoise     DIR/[dataset_train/]patches_RESOLUTION_1024.h5: patches, "train" and "val"
    anything else  clouds and meshes anywhere under DIR

Files of the same stem are one shape at several resolutions.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pdflow.errors import PdflowError
from pdflow.geometry.frame import unit_sphere
from pdflow.io import FORMATS, atomic_path, read, read_mesh, require_finite
from pdflow.io.atomic import MARK
from pdflow.lazy import require
from pdflow.train.shapes import ReadyPatches, Shapes, Source

SCORE_DENOISE = "PUNet/pointclouds/train"
DMR_PATTERNS = ("patches_*.h5", "dataset_train/patches_*.h5")

Cloud = NDArray[np.float64]


def read_source(folder: Path, resolutions: Sequence[int], cache: Path) -> Source:
    """Everything to train on under a folder.

    resolutions  points that meshes are sampled with: a cloud each
    cache        folder in which sampled clouds are kept; made when needed
    """
    if not folder.is_dir():
        raise PdflowError(f"{folder} is not a folder: give one with clean clouds or meshes.")
    patches = sorted(file for pattern in DMR_PATTERNS for file in folder.glob(pattern))
    if patches:
        return _read_dmr(patches)
    root = folder / SCORE_DENOISE if (folder / SCORE_DENOISE).is_dir() else folder
    suffixes = {suffix for fmt in FORMATS for suffix in fmt.suffixes}
    files = sorted(f for f in root.rglob("*") if f.suffix.lower() in suffixes and f.is_file())
    # A killed process may have left half of a cloud in a temporary file.
    files = [f for f in files if cache not in f.parents and MARK not in f.name]
    if not files:
        raise PdflowError(
            f"{folder} holds nothing to train on: give a folder with clean clouds or meshes."
        )
    clouds: dict[str, list[Cloud]] = {}
    for file in files:
        clouds.setdefault(file.stem, []).extend(_clouds(file, resolutions, cache))
    return Shapes(clouds)


def _clouds(file: Path, resolutions: Sequence[int], cache: Path) -> list[Cloud]:
    """The cloud in a file, or those sampled from its mesh, in the unit sphere."""
    if _is_mesh(file):
        found = _sampled(file, resolutions, cache)
    else:
        found = [require_finite(read(file), file).points]
    return [unit_sphere(points).apply(points) for points in found]


def _is_mesh(file: Path) -> bool:
    fmt = next(fmt for fmt in FORMATS if file.suffix.lower() in fmt.suffixes)
    if not (fmt.mesh and fmt.points):
        return fmt.mesh
    try:
        read_mesh(file)
    except PdflowError:
        return False
    return True


def _sampled(file: Path, resolutions: Sequence[int], cache: Path) -> list[Cloud]:
    """Evenly sampled clouds of a mesh, from the cache if the same file was sampled before."""
    from pdflow.geometry.sampling import sample_mesh

    key = hashlib.sha256(file.read_bytes() + repr(list(resolutions)).encode()).hexdigest()
    kept = cache / f"{key}.npz"
    if kept.is_file():
        with np.load(kept) as arrays:
            return [arrays[str(count)] for count in resolutions]
    mesh = read_mesh(file)
    clouds = {str(count): sample_mesh(mesh, count, seed=count)[0] for count in resolutions}
    cache.mkdir(parents=True, exist_ok=True)
    with atomic_path(kept) as temporary:
        np.savez(temporary, **clouds)  # type: ignore[arg-type]
    return list(clouds.values())


def _read_dmr(files: Sequence[Path]) -> ReadyPatches:
    """Patches (P, n, 3) of all files: the datasets "train", and "val" as held-out ones."""
    h5py = require("h5py", extra="train", purpose="Reading HDF5 patches")
    parts: dict[str, list[NDArray[np.float32]]] = {"train": [], "val": []}
    for file in files:
        try:
            with h5py.File(file, "r") as content:
                for name, found in parts.items():
                    if name in content:
                        found.append(np.asarray(content[name], np.float32)[..., :3])
        except OSError as error:
            raise PdflowError(f"{file} is not an HDF5 file ({error}).") from error
    for array in (array for found in parts.values() for array in found):
        if array.ndim != 3 or array.shape[1:] != parts["train"][0].shape[1:]:
            raise PdflowError(f"{files[0].parent}: all patches must be (P, n, 3) with the same n.")
    if not parts["train"]:
        raise PdflowError(f'{files[0]} has no dataset "train": give files of DMRDenoise.')
    held = parts["val"] or [parts["train"][0][:0]]
    return ReadyPatches(np.concatenate(parts["train"]), np.concatenate(held))
