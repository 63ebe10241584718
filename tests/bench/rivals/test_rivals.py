"""Rivals run from their own files, with passes by noise, and fail in one sentence."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import torch

from pdflow.bench.cases import Case, Scale
from pdflow.bench.methods import choose_methods
from pdflow.bench.rivals import RIVALS, named_rival
from pdflow.errors import PdflowError

NAMES = tuple(rival.name for rival in RIVALS)


@pytest.mark.parametrize("name", NAMES)
def test_a_rival_runs_from_its_own_folder(name, downloads, cloud):
    (method,) = choose_methods([f"{name}:1"])
    modules, path = set(sys.modules), list(sys.path)
    network = method.load()
    done = method.denoise(network, Case(cloud, cloud))
    assert done.points.shape == cloud.shape
    assert done.remark == "1x1"
    assert path == sys.path
    foreign = {"models", "pytorch3d", "torch_geometric", "torch_cluster", "metric", "kaolin"}
    assert not {each for each in set(sys.modules) - modules if each.partition(".")[0] in foreign}
    assert not list(downloads[name].rglob("__pycache__"))
    if name == "score-denoise":  # in the cloud's frame, and sampled again
        expected = np.unique(np.linalg.norm(cloud / 2, axis=1).round(5))
        assert np.isin(np.linalg.norm(done.points, axis=1).round(5), expected).mean() > 0.99
    else:  # towards the seed of the patch in which a point is most central
        moves = np.linalg.norm(done.points - cloud, axis=1)
        assert 0 <= moves.min() < 1e-6
        assert moves.max() < 1


def test_each_rival_is_named_if_its_files_are_missing(tmp_path, monkeypatch):
    for rival in RIVALS:
        monkeypatch.delenv(rival.variable, raising=False)
        (method,) = choose_methods([rival.name])
        assert method.missing == f"set {rival.variable} to a clone of {rival.source}"
        monkeypatch.setenv(rival.variable, str(tmp_path))
        (method,) = choose_methods([rival.name])
        assert method.missing is not None
        assert method.missing.startswith(f"there is no file {tmp_path / rival.code}; ")


def test_other_weights_are_another_result(downloads, tmp_path, monkeypatch):
    first = named_rival("pd-lts-light")
    other = tmp_path / "mine-FBM.ckpt"
    torch.save({"factor": torch.tensor(1.0)}, other)
    monkeypatch.setenv("PDFLOW_PD_LTS_WEIGHTS", str(other))
    second = named_rival("pd-lts-light")
    assert first.digest != second.digest
    assert named_rival("pd-lts-light:2").digest != second.digest
    patches = torch.rand(1, 8, 3)
    assert torch.equal(second.load()(patches), patches)


def test_one_sentence_if_their_code_or_weights_fail(downloads):
    (downloads["straightpcf"] / "models/feature.py").write_text("import nowhere\n")
    with pytest.raises(PdflowError, match=r"^straightpcf: load failed \(ModuleNotFoundError: .*\)"):
        named_rival("straightpcf").load()

    class Code:
        def __reduce__(self):
            return print, ("run",)

    torch.save(Code(), downloads["score-denoise"] / "pretrained/ckpt.pt")
    with pytest.raises(PdflowError, match="score-denoise: load failed") as caught:
        named_rival("score-denoise").load()
    assert "\n" not in str(caught.value)


def test_a_rival_that_fails_does_not_stop_the_others(bench, score_data, tmp_path, downloads):
    broken = downloads["pd-lts-light"] / "models/model_light/deflow.py"
    broken.write_text("raise RuntimeError('out of memory')\n")
    words = ("puset", "--data", score_data, "-o", tmp_path / "out", "--points", "10000")
    chosen = ("--levels", "0.02", "--shapes", "egg", "--methods", "pd-lts-light,straightpcf,noisy")
    done = bench(*words, *chosen)
    assert done.code == 2
    assert "pd-lts-light: load failed (RuntimeError: out of memory)" in done.err
    assert "| straightpcf (1 shape, not the 20 published ones) |" in done.out
    assert "| noisy (1 shape," in done.out


def test_noise_decides_on_passes_unless_they_are_given():
    levels = (0.01, 0.02, 0.03)
    found = {rival.name: [rival.passes(level) for level in levels] for rival in RIVALS}
    assert found == {
        "pd-lts-light": [1, 1, 1],
        "straightpcf": [1, 2, 3],
        "score-denoise": [1, 1, 2],
    }
    assert named_rival("straightpcf:x") is None
    assert named_rival("straightpcf:0") is None
    assert named_rival("mine") is None


def test_passes_follow_the_estimated_noise(downloads, cloud, monkeypatch):
    method = named_rival("straightpcf")
    network = method.load()
    for noise, remark in ((0.01, "1x1"), (0.03, "3x1")):
        monkeypatch.setattr(Scale, "of", staticmethod(lambda _, noise=noise: Scale(noise, 0.05)))
        assert method.denoise(network, Case(cloud, cloud)).remark == remark
