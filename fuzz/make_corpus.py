"""Write the corpus: small valid files of every kind, with and without attributes and metadata.

    python fuzz/make_corpus.py

Files are a few kilobytes at most, so that a mutation hits something that matters.
"""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
from targets import CORPUS, KINDS, MESHES, tiny_trainer

from pdflow import PointCloud, TriangleMesh, write, write_mesh
from pdflow.train.checkpoint import save_checkpoint
from pdflow.weights import save_model

VARIANTS = {
    "ply-ascii": {"ply": {"format": "ascii"}},
    "ply-big-endian": {"ply": {"format": "binary_big_endian"}},
    "pcd-ascii": {"pcd": {"data": "ascii"}},
    "pcd-compressed": {"pcd": {"data": "binary_compressed"}},
}
M = 9
TETRAHEDRON = TriangleMesh(
    [[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1.5]], [[0, 2, 1], [0, 1, 3], [1, 2, 3], [2, 0, 3]]
)


def clouds(kind: str) -> dict[str, PointCloud]:
    """The clouds of a kind by name."""
    rng = np.random.default_rng(0)
    points = np.rint(rng.normal(size=(M, 3)) * 1000) / 1000
    metadata = VARIANTS.get(kind, {})
    rich = {
        "colors": rng.integers(0, 256, (M, 3)).astype(np.uint8),
        "normals": rng.normal(size=(M, 3)).astype(np.float32),
        "intensity": np.arange(M, dtype=np.uint16),
        "gps_time": np.linspace(3e8, 3e8 + 1, M),
        "flag": np.arange(M) % 2 == 0,
        "label": np.arange(M, dtype=np.int64),
    }
    notes = {"crs": "EPSG:25832", "comments": ["by hand"], "survey": {"list": [1, 2.5, None]}}
    utm = points + np.array([5e5, 5.4e6, 100.0])
    return {
        "plain": PointCloud(points.astype(np.float32), {}, metadata),
        "rich": PointCloud(utm, rich, {**notes, **metadata}),
    }


def write_kind(kind: str, folder: Path) -> None:
    """Write the files of one kind."""
    suffix = KINDS[kind]
    if kind == "weights":
        save_model(folder / f"tiny{suffix}", tiny_trainer().averaged(), {"seed": 7})
    elif kind == "checkpoint":
        save_checkpoint(tiny_trainer(), folder / f"tiny{suffix}")
    elif kind == "recipe":
        (folder / f"small{suffix}").write_text(
            '[model]\nhidden = 16\nedge_neighbours = [8, 0]\nfilter = "lcc"\n'
            "[data]\nlevels = [0.005, 0.03]\nseeds = 64\n[optim]\nsteps = 10\nlr = 1e-3\n"
        )
    elif kind in MESHES:
        write_mesh(folder / f"mesh{suffix}", TETRAHEDRON)
    else:
        for name, cloud in clouds(kind).items():
            write(folder / f"{name}{suffix}", cloud)
        if kind.startswith("ply"):
            write_mesh(folder / f"mesh{suffix}", TETRAHEDRON)


def main() -> None:
    """Write all kinds."""
    warnings.simplefilter("ignore")
    for kind in KINDS:
        folder = CORPUS / kind
        folder.mkdir(parents=True, exist_ok=True)
        write_kind(kind, folder)
        sizes = ", ".join(str(path.stat().st_size) for path in sorted(folder.iterdir()))
        print(f"{kind:15} {sizes} bytes")


if __name__ == "__main__":
    main()
