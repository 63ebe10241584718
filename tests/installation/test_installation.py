"""What a clone offers to install: which torch, images, versions that agree."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

import pdflow

ROOT = Path(__file__).parents[2]
CUDA = ["filelock", 'nvidia-cublas-cu12==12.8; platform_system == "Linux"']


@pytest.fixture
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("torch_script", ROOT / "scripts/install_torch.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("requirements", "has_gpu", "from_cpu_index"),
    [(CUDA, False, True), (CUDA, True, False), (["filelock"], False, False), ([], True, False)],
)
def test_cuda_is_not_fetched_for_machines_without_a_gpu(
    script: ModuleType, requirements: list[str], has_gpu: bool, from_cpu_index: bool
) -> None:
    assert script.needs_cpu_index(requirements, has_gpu) is from_cpu_index


def test_a_torch_that_is_there_is_kept_and_named(
    script: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    script.main([])
    assert re.fullmatch(r"torch 2\.\S+ is installed\n", capsys.readouterr().out)


@pytest.mark.parametrize("name", ["Dockerfile", "Dockerfile.cuda"])
def test_images_run_without_privileges_and_pass_the_linter(name: str) -> None:
    lines = (ROOT / name).read_text().splitlines()
    assert [line for line in lines if line.startswith("USER")] == ["USER 1000"]
    linter = shutil.which("hadolint", path=str(Path(sys.executable).parent))
    if linter is None:
        pytest.skip("no hadolint here")
    done = subprocess.run([linter, ROOT / name], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_pins_leave_a_choice_for_the_oldest_python() -> None:
    """pip refuses a pin that needs a newer Python, even if an older release would do."""
    project = (ROOT / "pyproject.toml").read_text()
    (oldest,) = re.findall(r'^requires-python = ">=(.+)"$', project, re.M)
    for line in (ROOT / "constraints.txt").read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        pin = Requirement(line)
        try:
            needs = importlib.metadata.metadata(pin.name).get("Requires-Python")
        except importlib.metadata.PackageNotFoundError:
            continue
        applies = pin.marker is None or pin.marker.evaluate({"python_version": oldest})
        assert not applies or f"{oldest}.0" in SpecifierSet(needs or ""), line


def test_the_version_has_a_section_in_the_changelog_and_a_date() -> None:
    section = f"## [{pdflow.__version__}] - "
    (line,) = (line for line in (ROOT / "CHANGELOG.md").read_text().splitlines() if section in line)
    assert f"date-released: {line.removeprefix(section)}" in (ROOT / "CITATION.cff").read_text()


def test_images_take_the_files_that_the_build_needs() -> None:
    taken = {line[1:] for line in (ROOT / ".dockerignore").read_text().split() if line[0] == "!"}
    copied = set(re.findall(r"^COPY (?!--from)(.+) \S+$", (ROOT / "Dockerfile").read_text(), re.M))
    assert taken == {name for line in copied for name in line.split()}
