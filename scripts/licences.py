"""List the licences of everything that pdflow installs: the core, then what each extra adds.

    .venv/bin/python scripts/licences.py

Exit code 1 if a licence of the core hinders closed products.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping

from dependencies import Package, closure

EXTRAS = ("las", "e57", "mesh", "train", "app")

PERMISSIVE = re.compile(
    r"\b(MIT|BSD|Apache|ISC|PSF|Python Software Foundation|Unlicense|0BSD|CC0|Zlib|HPND|"
    r"BSL-1\.0|MPL)\b",
    re.IGNORECASE,
)
"""Licences that a closed product may ship: permissive ones, and MPL, which covers its own files."""

COPYLEFT = re.compile(r"\b(A?GPL|General Public)", re.IGNORECASE)


def hinders(package: Package) -> bool:
    """Whether a licence is copyleft beyond its own files, or unknown."""
    alternatives = re.split(r"\bOR\b", package.licence)
    return all(COPYLEFT.search(text) or not PERMISSIVE.search(text) for text in alternatives)


def hindering(packages: Mapping[str, Package]) -> list[Package]:
    """The packages whose licences hinder closed products."""
    return [package for package in packages.values() if hinders(package)]


def main() -> int:
    """Print the table."""
    core = closure(set())
    known = dict(core)
    rows = [("core", package) for package in core.values()]
    for extra in EXTRAS:
        added = closure({extra})
        rows += [(extra, package) for name, package in added.items() if name not in known]
        known.update(added)
    print("| with | package | licence |\n|---|---|---|")
    for extra, package in rows:
        mark = " (hinders closed products)" if hinders(package) else ""
        print(f"| {extra} | {package.name} | {package.licence}{mark} |")
    return int(bool(hindering(core)))


if __name__ == "__main__":
    sys.exit(main())
