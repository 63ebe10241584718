"""What an installation of pdflow brings: names, versions and licences, from installed metadata."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PACKAGE = "pdflow"
ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Package:
    """An installed package.

    licence   as its metadata says: an expression, a text's first line, or classifiers
    requires  canonical names of what it needs here
    """

    name: str
    version: str
    licence: str
    requires: tuple[str, ...]


def closure(extras: set[str]) -> dict[str, Package]:
    """pdflow with these extras and everything that they need here, by canonical name.

    What pdflow needs is read from pyproject.toml, as an installed copy may be older.
    """
    found: dict[str, metadata.Distribution] = {}
    needs: dict[str, set[str]] = {}
    waiting = [(PACKAGE, extra) for extra in {"", *extras}]
    seen = set(waiting)
    while waiting:
        name, extra = waiting.pop()
        try:
            found[name] = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue  # of another platform, or torch's CUDA libraries beside its CPU build
        for requirement in _requirements(found[name], extra):
            child = canonicalize_name(requirement.name)
            needs.setdefault(name, set()).add(child)
            wanted = {(child, also) for also in {"", *requirement.extras}} - seen
            seen |= wanted
            waiting += wanted
    known = set(found)
    return {
        name: Package(d.name, d.version, _licence(d), tuple(sorted(needs.get(name, set()) & known)))
        for name, d in sorted(found.items())
    }


def _requirements(distribution: metadata.Distribution, extra: str) -> list[Requirement]:
    """What a package needs here for one of its extras, or without any (empty)."""
    if canonicalize_name(distribution.name) == PACKAGE:
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        chosen = project["optional-dependencies"][extra] if extra else project["dependencies"]
    else:
        chosen = distribution.requires or []
    made = [Requirement(text) for text in chosen]
    return [r for r in made if r.marker is None or r.marker.evaluate({"extra": extra})]


def _licence(distribution: metadata.Distribution) -> str:
    about = distribution.metadata
    if about.get("License-Expression"):
        return str(about["License-Expression"])
    classifiers = [
        line.rpartition(" :: ")[2]
        for line in about.get_all("Classifier") or []
        if line.startswith("License :: ")
    ]
    classifiers = [name for name in classifiers if name != "OSI Approved"]
    text = (about.get("License") or "").strip().splitlines()
    if classifiers:
        return " AND ".join(classifiers)
    return re.sub(r"\s+", " ", text[0]) if text else "unknown"
