"""Figure of section 4.3: masked channels of the FBM filter."""

from __future__ import annotations

from pdflow.bench.tables.ablation import ablation_table
from pdflow.bench.variants import Training, Variant, variant

MASKED_DIMS = (0, 1, 4, 8, 16, 24, 32, 33, 35)


def variants(training: Training) -> list[Variant]:
    """D_m of 35 channels, from none to all."""
    return [
        variant(f"D_m = {dims}", training, "paper-fbm", masked_dims=dims) for dims in MASKED_DIMS
    ]


TABLE = ablation_table(
    "masked-dims",
    "Masked channels of FBM",
    "Number D_m of the 35 latent channels that a fixed mask sets to zero",
    "figure of the masked channels",
    variants,
    note="With D_m = 35 nothing is left of a code: the network cannot learn, and its output lies "
    "far from any shape.",
)
