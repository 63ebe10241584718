"""Figure of section 4.3: augmented dimensions."""

from __future__ import annotations

from dataclasses import replace

from pdflow.bench.tables.ablation import ablation_table
from pdflow.bench.variants import Training, Variant, variant

AUGMENT_DIMS = (0, 8, 16, 32, 64)
DRAWN = (32, 64)
"""Networks that are measured twice: decoded from the mean of eps, and from drawn eps."""
MASKED = 6


def variants(training: Training) -> list[Variant]:
    """D_a = 0 (the vanilla flow) to 64, with the LCC filter, as in the paper's curves."""
    found = {
        dims: variant(
            f"D_a = {dims}", training, augment_dims=dims, masked_dims=min(MASKED, 3 + dims)
        )
        for dims in AUGMENT_DIMS
    }
    drawn = (
        replace(found[dims], name=f"D_a = {dims} with drawn eps", drawn=True) for dims in DRAWN
    )
    return [*found.values(), *drawn]


TABLE = ablation_table(
    "augment-dims",
    "Augmented dimensions",
    "Number D_a of augmented channels, from the vanilla flow (D_a = 0) on, with the LCC filter",
    "figure of the augmentation channels",
    variants,
    note="Rows decode from the mean of the extra dimensions (eps = 0), as pdflow does by default, "
    "unless they say that eps is drawn, as in the paper. With 64 extra dimensions the mean is far "
    "from everything that the network saw in training, so it fails there; with drawn eps it does "
    "not.",
)
