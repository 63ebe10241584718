"""Objects of nobody's library: the protocol that real ones follow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from pdflow.adapters import adapt
from pdflow.adapters.groups import group
from pdflow.errors import PdflowError

KEPT = [4, 0, 2, 2]


@dataclass(frozen=True)
class Scan:
    points: Any
    intensity: Any
    station: str


class Sealed:
    """Points that can be read but not replaced."""

    @property
    def points(self) -> np.ndarray:
        return np.zeros((5, 3))


@pytest.mark.parametrize("kind", [Scan, SimpleNamespace])
@pytest.mark.parametrize("rows", [slice(None), KEPT])
def test_fields_with_a_row_for_each_point_follow(
    kind: Any, rows: Any, points: np.ndarray, passed: Callable[..., Any]
) -> None:
    given = kind(points=points.astype(np.float32), intensity=np.arange(50), station="north")
    clean = passed(given, rows)
    assert type(clean) is kind
    assert clean.points.dtype == np.float32
    assert clean.points == pytest.approx(points[rows] + [1, 0, 0], abs=1e-6)
    assert np.array_equal(clean.intensity, np.arange(50)[rows])
    assert clean.station == "north"
    assert given.points == pytest.approx(points, abs=1e-6)


def test_fields_may_be_tensors(points: np.ndarray, passed: Callable[..., Any]) -> None:
    features = torch.arange(300, dtype=torch.bfloat16).reshape(50, 2, 3)
    given = SimpleNamespace(points=torch.from_numpy(points), features=features)
    clean = passed(given, KEPT)
    assert isinstance(clean.points, torch.Tensor)
    assert torch.equal(clean.features, features[KEPT])


def test_arrays_among_the_fields_can_be_named(points: np.ndarray) -> None:
    given = Scan(points, np.arange(50), "north")
    assert adapt(given).read().attributes["intensity"].tolist() == list(range(50))


def test_points_that_cannot_be_replaced_are_refused_before_a_run() -> None:
    with pytest.raises(
        PdflowError, match=r"points of this Sealed cannot be replaced .* an array\."
    ):
        adapt(Sealed()).read()


def test_there_is_no_room_for_more(points: np.ndarray) -> None:
    with pytest.raises(PdflowError, match="Scan has no room for 'outlier' and 'displacement'"):
        group(Scan(points, None, "")).check_room(["outlier", "displacement"])


@pytest.mark.parametrize("wrong", ["none", None, [[1, 2]]])
def test_points_that_are_no_points_are_refused(wrong: Any) -> None:
    with pytest.raises(PdflowError, match=r"no numbers|has shape"):
        adapt(SimpleNamespace(points=wrong)).read()
