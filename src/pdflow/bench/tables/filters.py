"""Table 4: filters that remove noise from the latent code."""

from __future__ import annotations

from pdflow.bench.score_layout import LEVELS
from pdflow.bench.tables.ablation import ablation_table
from pdflow.bench.variants import Training, Variant, variant


def variants(training: Training) -> list[Variant]:
    """FBM, LBM and LCC, with and without their loss; FBM has none."""
    return [
        variant("FBM", training, "paper-fbm"),
        variant("LBM without loss", training, "paper-lbm", with_loss=False),
        variant("LBM", training, "paper-lbm"),
        variant("LCC without loss", training, "paper-lcc", with_loss=False),
        variant("LCC", training, "paper-lcc"),
    ]


TABLE = ablation_table(
    "filters",
    "Filtering strategies",
    "Three filters of the latent code, with and without their own loss",
    "Table 4",
    variants,
    LEVELS,
)
