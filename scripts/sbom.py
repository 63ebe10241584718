"""Write the software bill of materials of a release: CycloneDX, JSON.

    .venv/bin/python scripts/sbom.py sbom.cdx.json

It lists pdflow and what an installation with all extras brings, as it is installed here.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import DisjunctiveLicense
from cyclonedx.output.json import JsonV1Dot6
from dependencies import Package, closure
from packageurl import PackageURL


def component(package: Package) -> Component:
    """A package as a component."""
    return Component(
        name=package.name,
        version=package.version,
        type=ComponentType.APPLICATION if package.name == "pdflow" else ComponentType.LIBRARY,
        bom_ref=f"{package.name}=={package.version}",
        licenses=[DisjunctiveLicense(name=package.licence)],
        purl=PackageURL("pypi", name=package.name, version=package.version),
    )


def make_sbom() -> str:
    """The text of the file."""
    packages = closure({"all"})
    components = {name: component(package) for name, package in packages.items()}
    bom = Bom()
    bom.metadata.component = components["pdflow"]
    bom.components.update(part for name, part in components.items() if name != "pdflow")
    for name, package in packages.items():
        bom.register_dependency(components[name], [components[n] for n in package.requires])
    text: str = JsonV1Dot6(bom).output_as_string(indent=2)
    return text


def main(words: Sequence[str]) -> None:
    """Write the file."""
    if len(words) != 1:
        sys.exit("usage: sbom.py FILE")
    Path(words[0]).write_text(make_sbom() + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
