from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pdflow.errors import PdflowError
from pdflow.train.folders import read_shapes
from pdflow.train.shapes import Shapes


def test_shapes_are_read_from_folders_and_split(tmp_path: Path, sphere: np.ndarray) -> None:
    folder = tmp_path / "PUNet" / "pointclouds" / "train" / "10000_poisson"
    folder.mkdir(parents=True)
    for name in ("a", "b"):
        np.savetxt(folder / f"{name}.xyz", 3 * sphere[:50] + 7)
    shapes = read_shapes(tmp_path)
    train, held = shapes.split(("b",))
    assert list(train.clouds) == ["a"]
    assert list(held.clouds) == ["b"]
    assert np.abs(shapes.all_clouds()[0]).max() <= 1 + 1e-9
    assert shapes.digest != train.digest


def test_splits_that_cannot_be_are_refused(tmp_path: Path, sphere: np.ndarray) -> None:
    shapes = Shapes({"a": [sphere]})
    with pytest.raises(PdflowError, match="'c'"):
        shapes.split(("c",))
    with pytest.raises(PdflowError, match="All shapes are held out"):
        shapes.split(("a",))
    with pytest.raises(PdflowError, match="no clouds"):
        read_shapes(tmp_path / "nothing")
