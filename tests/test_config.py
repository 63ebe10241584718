"""Both configs refuse values that make no sense when they are made."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pdflow.config import FlowConfig, InferenceConfig
from pdflow.errors import PdflowError


@pytest.mark.parametrize(
    "change",
    [
        {"augment_dims": -1},
        {"edge_neighbours": (32,), "patch_points": 16},
        {"edge_neighbours": ()},
        {"edge_neighbours": (-1,)},
        {"filter": "median"},
        {"coupling": "cubic"},
        {"permutation": "shuffle"},
        {"decoder": "none"},
        {"filter_init": "zero"},
        {"condition": "none"},
        {"augment_norm": "layer"},
        {"masked_dims": 36},
        {"masked_dims": -1},
        {"hidden": 0},
        {"clamp": 0.0},
        {"noise_unit": 0.0},
        {"augment_dims": 0, "noise_conditioning": True},
        {"point_dims": 1, "augment_dims": 0, "masked_dims": 0},
    ],
)
def test_bad_configs_fail_when_made_in_one_sentence(change: dict[str, object]) -> None:
    with pytest.raises(PdflowError, match=r"^Bad network config: [^\n]+\.$"):
        replace(FlowConfig(), **change)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "change",
    [
        {"patch_radius": (0.6, 0.1)},
        {"patch_radius": (0.0, 0.1)},
        {"patch_radius": (1.0,)},
        {"conditioning_scales": (0.8, 0.0, 0.3)},
        {"conditioning_scales": (0.8, 0.3)},
        {"pass_thresholds": (0.04, 0.0)},
        {"partition_thresholds": (0.2, 0.1)},
    ],
)
def test_bad_inference_configs_fail_when_made_in_one_sentence(change: dict[str, object]) -> None:
    with pytest.raises(PdflowError, match=r"^Bad inference config: [^\n]+\.$"):
        replace(InferenceConfig(), **change)  # type: ignore[arg-type]


def test_patches_have_one_radius_where_smallest_and_largest_are_the_same() -> None:
    assert InferenceConfig(patch_radius=(4.0, 4.0)).fixed_radius == 4.0
    assert InferenceConfig(patch_radius=(0.1, 0.6)).fixed_radius is None


def test_lists_become_tuples_so_that_configs_compare() -> None:
    assert FlowConfig(edge_neighbours=[4, 0]) == FlowConfig(edge_neighbours=(4, 0))  # type: ignore[arg-type]
    assert InferenceConfig(pass_thresholds=[0.1]) == InferenceConfig(pass_thresholds=(0.1,))  # type: ignore[arg-type]
