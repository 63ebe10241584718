"""Everything works in other processes and threads, after this one did the same or did nothing.

A forked process lacks the threads of its parent, and a library that waits for one waits for ever.
Each case is a script of its own with a time limit, so that a hang is a failure. Tasks of one kind
share a script: its threads stay when the next task is forked.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs POSIX: fork")

PATIENCE = 240.0
"""Seconds after which a child counts as hanging."""

TASKS = """
import os, sys
import numpy as np
import pdflow
from pdflow import PointCloud, io

FOLDER = sys.argv[1]
POINTS = np.random.default_rng(0).random((120_000, 3))
MODEL = None

def denoise(suffix):
    return pdflow.denoise(POINTS[:600] * [1, 1, 0.01], iterations=1)

def denoise_loaded(suffix):
    global MODEL
    MODEL = MODEL or pdflow.load_model("pdflow")  # a forked process has that of its parent
    return pdflow.denoise(POINTS[:600] * [1, 1, 0.01], iterations=1, model=MODEL)

def denoise_tensor(suffix):
    import torch
    return pdflow.denoise(torch.from_numpy(POINTS[:600]) * 1.0, iterations=1).numpy()

def call_module(suffix):
    global MODEL
    import torch
    MODEL = MODEL or pdflow.load_model("pdflow")
    patches = torch.from_numpy(POINTS[:512].reshape(2, 256, 3)).float()
    with torch.no_grad():
        return MODEL.denoise_patches(patches, sigma=torch.full((2,), 0.02)).numpy()

def load(suffix):
    return np.concatenate([p.detach().ravel() for p in pdflow.load_model("pdflow").parameters()])

def read(suffix):
    return io.read(f"{FOLDER}/cloud.{suffix}").points

def write(suffix):
    import threading
    path = f"{FOLDER}/{os.getpid()}-{threading.get_ident()}.{suffix}"
    io.write(path, PointCloud(POINTS))
    with open(path, "rb") as written:
        return np.frombuffer(written.read(), np.uint8)

def prepare(suffix):
    io.write(f"{FOLDER}/cloud.{suffix}", PointCloud(POINTS))

def is_same(results, expected):
    rounding = 1e-5 if expected.dtype == np.float32 else 0  # torch adds in the order of its threads
    for result in results:
        np.testing.assert_allclose(result, expected, rtol=0, atol=rounding)
    print("same")
"""

FORK = """
import multiprocessing
from tasks import *

for task in sys.argv[2:]:
    name, _, suffix = task.partition(" ")
    action, suffix = globals()[name], suffix or "ply"
    prepare(suffix)
    expected = action(suffix)
    with multiprocessing.get_context("fork").Pool(2) as pool:
        is_same(pool.map_async(action, [suffix] * 2).get(200), expected)
"""

SPAWN = """
import multiprocessing
from tasks import *

if __name__ == "__main__":
    prepare("laz")
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        for action in (denoise, read, write):
            is_same([pool.apply_async(action, ["laz"]).get(200)], action("laz"))
"""

THREADS = """
from concurrent.futures import ThreadPoolExecutor
from tasks import *

for suffix in ("laz", "e57", "pcd"):
    prepare(suffix)
with ThreadPoolExecutor(6) as pool:
    jobs = [(f, s) for f in (denoise, denoise_loaded, read, write) for s in ("laz", "pcd")]
    running = [[pool.submit(f, s) for f, s in jobs] for _ in range(2)]
    for place, (action, suffix) in enumerate(jobs):
        is_same([job[place].result() for job in running], action(suffix))
"""

LOADER = """
import torch
from tasks import *

class Clouds(torch.utils.data.Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, i):
        cloud = io.read(f"{FOLDER}/cloud.{['laz', 'ply', 'e57', 'pcd'][i]}")
        return torch.from_numpy(cloud.points[:100])

if __name__ == "__main__":
    for suffix in ("laz", "ply", "e57", "pcd"):
        prepare(suffix)
    torch.randn(600, 600) @ torch.randn(600, 600)  # starts the threads of torch
    clouds = Clouds()
    expected = torch.stack([clouds[i] for i in range(4)])
    loader = torch.utils.data.DataLoader(
        clouds, batch_size=4, num_workers=2, multiprocessing_context=sys.argv[2], timeout=200
    )
    is_same([batch.numpy() for batch in loader], expected.numpy())
"""


def run(folder: Path, script: str, *words: str) -> str:
    (folder / "tasks.py").write_text(TASKS)
    (folder / "script.py").write_text(script)
    environment = {**os.environ, "OMP_NUM_THREADS": "2", "RAYON_NUM_THREADS": "2"}
    done = subprocess.run(
        [sys.executable, str(folder / "script.py"), str(folder), *words],
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@needs_fork
@pytest.mark.parametrize(
    "tasks",
    [
        ["denoise"],
        ["load", "denoise_loaded", "denoise_tensor", "call_module"],
        ["read laz", "read e57", "read pcd", "read ply"],
        ["write laz", "write pcd", "write ply"],
    ],
    ids=lambda tasks: ", ".join(tasks),
)
def test_a_forked_process_does_the_same(tasks: list[str], tmp_path: Path) -> None:
    assert run(tmp_path, FORK, *tasks) == "same\n" * len(tasks)


def test_a_spawned_process_does_the_same(tmp_path: Path) -> None:
    assert run(tmp_path, SPAWN) == "same\n" * 3


def test_threads_do_the_same(tmp_path: Path) -> None:
    assert run(tmp_path, THREADS) == "same\n" * 8


@needs_fork
def test_workers_of_a_data_loader_read_clouds(tmp_path: Path) -> None:
    assert run(tmp_path, LOADER, "fork") == "same\n"
