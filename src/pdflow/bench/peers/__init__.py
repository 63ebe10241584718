"""Peers: the tools that one could use instead, each called as its manual says.

None of them chooses its own neighbourhood, so all share one rule (`Rule`). Its numbers were tuned
once on held-out training shapes (`benchmarks/fit/tune_peers.py`) and are in `parameters.json`.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from pdflow.bench.cases import Case, Points
from pdflow.bench.methods import Method, Output
from pdflow.bench.peers import cgal, open3d, pcl
from pdflow.bench.peers.rule import Neighbourhood, Rule, tuned_rules
from pdflow.lazy import install_hint

Smooth = Callable[[Points, Neighbourhood, Rule], Points]


@dataclass(frozen=True)
class Peer:
    """A tool: its name, its requirement, and a function that smooths points (M, 3) once.

    needs    a Python module, or a command
    package  where to get it
    """

    name: str
    needs: str
    package: str
    smooth: Smooth

    def missing(self) -> str | None:
        """Why it cannot run here, or None."""
        if self.needs == pcl.COMMAND:
            found = shutil.which(self.needs) is not None
            return None if found else f"the command {self.needs} was not found ({self.package})"
        if importlib.util.find_spec(self.needs) is not None:
            return None
        return f"the module {self.needs} was not found ({self.package})"

    def version(self) -> str:
        """The installed release, if Python knows it."""
        try:
            return importlib.metadata.version({"CGAL": "cgal", "open3d": "open3d-cpu"}[self.needs])
        except (importlib.metadata.PackageNotFoundError, KeyError):
            return "unknown"


_EXTRA = install_hint("bench")
PEERS = (
    Peer("cgal-jet", "CGAL", _EXTRA, cgal.jet),
    Peer("cgal-bilateral", "CGAL", _EXTRA, cgal.bilateral),
    Peer("cgal-wlop", "CGAL", _EXTRA, cgal.wlop),
    Peer("open3d-mls", "open3d", _EXTRA, open3d.mls),
    Peer("open3d-bilateral", "open3d", _EXTRA, open3d.bilateral),
    Peer("open3d-taubin", "open3d", _EXTRA, open3d.taubin),
    Peer("open3d-outliers", "open3d", _EXTRA, open3d.remove_outliers),
    Peer("pcl-mls", pcl.COMMAND, "Debian's pcl-tools", pcl.mls),
)


def peers() -> list[Method]:
    """All peers with their tuned parameters, installed or not."""
    rules = tuned_rules()
    return [peer_method(peer, rules[peer.name]) for peer in PEERS]


def peer_method(peer: Peer, rule: Rule) -> Method:
    """A peer with the parameters of a rule."""

    def denoise(_: None, case: Case) -> Output:
        points = case.noisy
        around = rule.neighbourhood(case.scale)
        for _pass in range(rule.repeat):
            points = peer.smooth(points, around, rule)
        return Output(points)

    missing = peer.missing()
    settings: dict[str, Any] = {**asdict(rule), "version": peer.version() if not missing else ""}
    return Method(peer.name, "peer", lambda: None, denoise, settings, missing=missing)
