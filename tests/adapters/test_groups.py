from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from pdflow.adapters.groups import group
from pdflow.cloud import PointCloud
from pdflow.errors import PdflowError

POINTS = np.zeros((5, 3))
ROW = np.zeros(3)


@pytest.mark.parametrize(
    ("given", "kind", "count"),
    [
        (POINTS, "one", 1),
        (POINTS.tolist(), "one", 1),
        ([ROW, ROW], "one", 1),
        ([torch.zeros(3), torch.zeros(3)], "one", 1),
        (PointCloud(POINTS), "one", 1),
        ([POINTS, POINTS[:2]], "list", 2),
        ((torch.zeros(5, 3), POINTS), "list", 2),
        ([PointCloud(POINTS)], "list", 1),
        ([SimpleNamespace(points=POINTS)], "list", 1),
        (np.zeros((4, 5, 3)), "batch", 4),
        (np.zeros((4, 5, 3)).tolist(), "batch", 4),
        (torch.zeros(4, 5, 6), "batch", 4),
    ],
)
def test_what_a_caller_means(given: Any, kind: str, count: int) -> None:
    found = group(given)
    assert found.kind == kind
    assert len(found.members) == count


def test_results_are_joined_as_they_were_given() -> None:
    for given in ([POINTS, POINTS[:2]], (POINTS, POINTS[:2])):
        found = group(given)
        joined = found.restore([member.read() for member in found.members], [])
        assert type(joined) is type(given)
        assert [len(each) for each in joined] == [5, 2]
    batch = torch.arange(60.0).reshape(4, 5, 3)
    found = group(batch)
    assert torch.equal(found.restore([member.read() for member in found.members], []), batch)


def test_added_values_of_a_batch_are_one_array() -> None:
    found = group(np.zeros((4, 5, 3)))
    results = [member.read() for member in found.members]
    for number, result in enumerate(results):
        result.attributes["outlier"] = np.full(5, number)
    columns = found.columns(results, ["outlier"])
    assert columns is not None
    assert columns["outlier"].shape == (4, 5)
    assert group(PointCloud(POINTS)).columns([PointCloud(POINTS)], ["outlier"]) is None


def test_batches_keep_their_shape() -> None:
    with pytest.raises(PdflowError, match="equal numbers of points"):
        group(np.zeros((4, 5, 3))).check_rows(some_go=True)
    group(np.zeros((4, 5, 3))).check_rows(some_go=False)
    with pytest.raises(PdflowError, match=r"shape \(0, 5, 3\): give at least one"):
        group(np.zeros((0, 5, 3)))
