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


def test_a_recipe_changes_settings_of_its_base(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('base = "pdflow-fast"\n[data]\ndeform = 0.3\n')
    (tmp_path / "again.toml").write_text('base = "mine.toml"\n[optim]\nlr = 1e-4\n')
    base, again = load_recipe("pdflow-fast"), load_recipe(tmp_path / "again.toml")
    assert again.name == "again"
    assert (again.data.deform, again.optim.lr) == (0.3, 1e-4)
    assert (again.model, again.loss) == (base.model, base.loss)
    assert again.optim.steps == base.optim.steps


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('base = "mine.toml"', "is its own base"),
        ('base = "other.toml"', "No recipe .*other.toml"),
        ("base = 3", "base is 3: give the name"),
    ],
)
def test_bad_bases_are_one_sentence(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "mine.toml").write_text(text)
    with pytest.raises(PdflowError, match=message):
        load_recipe(tmp_path / "mine.toml")


def test_a_mistake_names_the_file_that_it_is_in(tmp_path: Path) -> None:
    (tmp_path / "base.toml").write_text("[optim]\nsteps = 0\n")
    (tmp_path / "mine.toml").write_text('base = "base.toml"\n[optim]\nsteps = 5\n')
    with pytest.raises(PdflowError, match=r"base\.toml: A recipe needs"):
        load_recipe(tmp_path / "mine.toml")
