"""Everything works in a forked process after its parent did the same."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

PATIENCE = 120.0
"""Seconds after which a child counts as hanging."""

SCRIPT = """
import multiprocessing, os, sys
import numpy as np
import pdflow
from pdflow import PointCloud, io

folder, task = sys.argv[1:]
points = np.random.default_rng(0).random((120_000, 3))
file = f"{folder}/cloud.{task.partition(' ')[2]}"

def denoise(number):
    return pdflow.denoise(points[:2000] * [1, 1, 0.01], iterations=1)

def denoise_tensor(number):
    import torch
    return pdflow.denoise(torch.from_numpy(points[:2000]) * 1.0, iterations=1).numpy()

def load(number):
    return np.concatenate([p.detach().ravel() for p in pdflow.load_model("pdflow").parameters()])

def read(number):
    return io.read(file).points

def write(number):
    path = f"{folder}/{os.getpid()}-{os.path.basename(file)}"
    io.write(path, PointCloud(points))
    with open(path, "rb") as written:
        return np.frombuffer(written.read(), np.uint8)

if task.startswith("read"):
    io.write(file, PointCloud(points))
action = globals()[task.partition(" ")[0]]
before = action(0)
with multiprocessing.get_context("fork").Pool(2) as pool:
    for result in pool.map_async(action, [1, 2]).get(90):
        assert np.array_equal(result, before)
print("same")
"""


@pytest.mark.parametrize(
    "task",
    [
        "denoise",
        "denoise_tensor",
        "load",
        "read laz",
        "read e57",
        "read pcd",
        "read ply",
        "write laz",
        "write pcd",
        "write ply",
    ],
)
def test_a_forked_process_does_the_same(task: str, tmp_path: Path) -> None:
    environment = {**os.environ, "OMP_NUM_THREADS": "2", "RAYON_NUM_THREADS": "2"}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path), task],
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.stdout == "same\n", done.stderr
