"""Figure of section 4.3: augmented dimensions."""

from __future__ import annotations

from pdflow.bench.tables.ablation import ablation_table
from pdflow.bench.variants import Training, Variant, variant

AUGMENT_DIMS = (0, 8, 16, 32, 64)
MASKED = 6


def variants(training: Training) -> list[Variant]:
    """D_a = 0 (the vanilla flow) to 64, with the LCC filter, as in the paper's curves."""
    return [
        variant(f"D_a = {dims}", training, augment_dims=dims, masked_dims=min(MASKED, 3 + dims))
        for dims in AUGMENT_DIMS
    ]


TABLE = ablation_table(
    "augment-dims",
    "Augmented dimensions",
    "Number D_a of augmented channels, from the vanilla flow (D_a = 0) on, with the LCC filter",
    "figure of the augmentation channels",
    variants,
)
