from __future__ import annotations

from pathlib import Path

import pytest

from pdflow.errors import PdflowError
from pdflow.train.recipe import load_recipe, shipped_recipes


def test_every_shipped_recipe_loads() -> None:
    for name in shipped_recipes():
        assert load_recipe(name).name == name


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[model]\ncolour = 1", "no setting 'colour'"),
        ("[inference]\ncolour = 1", r"\[inference\] has no setting 'colour'"),
        ("[model]\ntold_noise = [1, 1, 1]", r"now called \[inference\] conditioning_scales"),
        ("[model]\ncentred = true", r"now called \[inference\] centred"),
        ("[data]\ntold_spread = 0.1", r"now called \[data\] conditioning_spread"),
        ("[inference]\npatch_radius = [2.0]", "Bad inference config"),
        ("[paint]\n", r"unknown section \[paint\]"),
        ("[model\n", "not a TOML file"),
        ("[model]\nfilter = 'median'", "Bad network config"),
        ("[optim]\nschedule = 'steep'", "choose one of cosine, constant, plateau"),
        ("[optim]\nprecision = 'fp8'", "choose one of ieee, tf32, bf16"),
        ("[optim]\nsteps = 'many'", r"\[optim\] steps is 'many'"),
        ("[optim]\nsteps = 0", "1 or more"),
        ("[data]\nnoise = ['pink']", "choose one of gaussian"),
        ("[data]\ncut = 'square'", "choose one of noisy, clean"),
        ("[data]\nresolutions = []", "a noise, a resolution and seeds"),
        ("[data]\niterate = 2", "a share from 0 to 1"),
        ("[data]\nlevels = 0.1", r"\[data\] levels is 0.1"),
        ("[data]\nlevels = ['a', 'b']", r"\[data\] levels is"),
    ],
)
def test_bad_recipes_are_one_sentence(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(text)
    with pytest.raises(PdflowError, match=message) as caught:
        load_recipe(path)
    assert str(path) in str(caught.value)


def test_a_name_that_is_no_recipe_lists_those_there_are() -> None:
    with pytest.raises(PdflowError, match=r"No recipe 'nonsense'.*paper-lcc"):
        load_recipe("nonsense")


def test_one_noise_may_stand_for_a_list(tmp_path: Path) -> None:
    path = tmp_path / "some.toml"
    path.write_text("[data]\nnoise = 'laplace'\n")
    assert load_recipe(path).data.noise == ("laplace",)
