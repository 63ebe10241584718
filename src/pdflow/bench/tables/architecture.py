"""Table 3: depth of the flow, and an MLP in place of its inverse."""

from __future__ import annotations

from pdflow.bench.tables.ablation import ablation_table
from pdflow.bench.variants import Training, Variant, variant


def variants(training: Training) -> list[Variant]:
    """L = 4, 8 and 12, and forward + MLP at L = 8."""
    return [
        variant("L = 4", training, "paper-l4"),
        variant("L = 8", training, "paper-lcc"),
        variant("L = 12", training, "paper-l12"),
        variant("forward + MLP", training, "paper-mlp"),
    ]


TABLE = ablation_table(
    "architecture",
    "Flow architectures",
    "Depth L of the flow, and an MLP as decoder in place of the inverse flow",
    "Table 3",
    variants,
)
