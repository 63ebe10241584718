from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import pdflow

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def project():
    """What pyproject.toml says."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def loaded_by(code: str) -> set[str]:
    """Top-level modules in a fresh interpreter after running `code`."""
    code += "\nimport sys; print(*{name.partition('.')[0] for name in sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_importing_the_package_loads_nothing_heavy():
    assert not loaded_by("import pdflow") & {"numpy", "scipy", "numba", "torch", "typer"}


def test_reading_and_writing_load_no_torch():
    assert "torch" not in loaded_by("import pdflow; pdflow.PointCloud; pdflow.read; pdflow.write")


@pytest.mark.parametrize("name", pdflow.__all__)
def test_every_public_name_can_be_had(name):
    assert getattr(pdflow, name) is getattr(pdflow, name)


@pytest.mark.parametrize("name", sorted({*pdflow.__all__} - {"__version__"}))
def test_every_public_name_has_an_example(name):
    assert ">>>" in (getattr(pdflow, name).__doc__ or "")


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no_such_name"):
        pdflow.no_such_name  # noqa: B018


def test_the_version_has_one_source(project):
    assert "version" in project["project"]["dynamic"]
    source = ROOT / project["tool"]["hatch"]["version"]["path"]
    assert f'__version__ = "{pdflow.__version__}"' in source.read_text().splitlines()
    citation = (ROOT / "CITATION.cff").read_text().splitlines()
    assert f"version: {pdflow.__version__}" in citation


def test_every_extra_brings_something(project):
    assert all(project["project"]["optional-dependencies"].values())


def test_extras_that_errors_and_documents_name_exist(project):
    known = set(project["project"]["optional-dependencies"])
    pages = [ROOT / "pyproject.toml", ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    for path in [*(ROOT / "src").rglob("*.py"), *pages]:
        text = path.read_text()
        named = re.findall(r'require\([^)]*?extra="(\w+)"', text, re.S)
        for several in re.findall(r"pdflow\[([\w,]+)\]", text):
            named += several.split(",")
        assert set(named) <= known, path


def test_the_documents_list_every_format_and_suffix():
    from pdflow.io import FORMATS

    page = (ROOT / "docs" / "formats.md").read_text()
    for fmt in FORMATS:
        rows = [line for line in page.splitlines() if line.startswith(f"| `{fmt.name}` |")]
        assert len(rows) == fmt.points + fmt.mesh, fmt.name
        for suffix in fmt.suffixes:
            assert all(f"`{suffix}`" in row for row in rows), suffix


def test_the_shipped_example_is_whole_and_small():
    noisy = pdflow.read(ROOT / "examples" / "gear_noisy.ply")
    clean = pdflow.read(ROOT / "examples" / "gear.ply")
    mesh = pdflow.read_mesh(ROOT / "examples" / "gear.off")
    assert len(noisy) == len(clean) == 10_000
    assert set(noisy.attributes) == {"colors", "intensity"}
    assert all((noisy.attributes[k] == clean.attributes[k]).all() for k in noisy.attributes)
    assert len(mesh.faces)
    files = [p for p in (ROOT / "examples").iterdir() if p.is_file()]
    assert sum(p.stat().st_size for p in files) < 1_000_000


def test_the_pictures_in_the_readme_are_there_and_small():
    pictures = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", (ROOT / "README.md").read_text())
    assert len(pictures) >= 2
    for picture in pictures:
        assert 0 < (ROOT / picture).stat().st_size < 3_000_000
