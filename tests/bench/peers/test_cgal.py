"""CGAL's filters keep rows, which tables of scans compare."""

from __future__ import annotations

import numpy as np
import pytest

from pdflow.bench.cases import Scale
from pdflow.bench.peers import cgal
from pdflow.bench.peers.rule import Rule
from pdflow.scenes.cases import make_case


@pytest.mark.parametrize("smooth", [cgal.jet, cgal.bilateral])
def test_points_keep_their_rows_on_an_open_surface(smooth):
    pytest.importorskip("CGAL", reason="CGAL is in the extra bench")
    noisy = make_case("scan-lines", 900_000, 3000, 0.005).noisy
    rule = Rule(3.0, 3.0, strength=30.0)
    around = rule.neighbourhood(Scale.of(noisy))
    done = smooth(noisy, around, rule)
    assert done.shape == noisy.shape
    assert np.linalg.norm(done - noisy, axis=1).max() < 0.1
