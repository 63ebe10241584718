"""The table of formats: found by name or suffix, with the modules it promises."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pdflow.errors import PdflowError
from pdflow.io import FORMATS, find_format


@pytest.mark.parametrize("fmt", FORMATS, ids=lambda f: f.name)
def test_every_format_is_found_by_name_and_by_each_suffix_in_any_case(fmt: Any) -> None:
    assert find_format(Path("cloud.unknown"), fmt.name.upper()) is fmt
    for suffix in fmt.suffixes:
        assert find_format(Path(f"folder.xyz/cloud{suffix.upper()}")) is fmt


@pytest.mark.parametrize("fmt", FORMATS, ids=lambda f: f.name)
def test_every_module_offers_what_the_registry_promises(fmt: Any) -> None:
    module = fmt.load()
    if fmt.points:
        assert hasattr(module, "read") or hasattr(module, "open_reader")
        assert hasattr(module, "write") or hasattr(module, "open_writer")
    if fmt.mesh:
        assert callable(module.read_mesh)
        assert callable(module.write_mesh)


def test_suffixes_and_names_are_unique() -> None:
    suffixes = [suffix for fmt in FORMATS for suffix in fmt.suffixes]
    names = [fmt.name for fmt in FORMATS]
    assert len(set(suffixes)) == len(suffixes)
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("name", "format", "expected"),
    [
        ("cloud.doc", None, "cloud.doc has the suffix '.doc', so its format is unknown"),
        ("cloud", None, "cloud has no suffix, so its format is unknown"),
        ("cloud.ply", "docx", "Unknown format 'docx'"),
    ],
)
def test_unknown_formats_list_the_known_ones(name: str, format: str | None, expected: str) -> None:
    with pytest.raises(PdflowError, match=expected) as caught:
        find_format(Path(name), format)
    assert all(fmt.name in str(caught.value) for fmt in FORMATS)
