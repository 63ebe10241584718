"""All tables by name, in the order of the paper, then our own."""

from __future__ import annotations

from pdflow.bench.tables import (
    architecture,
    augment_dims,
    dmrset,
    filters,
    lidar,
    masked_dims,
    noise_types,
    puset,
    scans,
    training_noise,
    uniformity,
)
from pdflow.bench.tables.table import Table
from pdflow.errors import PdflowError

TABLES: dict[str, Table] = {
    module.TABLE.name: module.TABLE
    for module in (
        puset,
        uniformity,
        architecture,
        filters,
        augment_dims,
        masked_dims,
        dmrset,
        lidar,
        noise_types,
        training_noise,
        scans,
    )
}


def find_table(name: str) -> Table:
    """The table of that name."""
    if name not in TABLES:
        raise PdflowError(f"There is no table {name!r}: choose one of {', '.join(TABLES)}.")
    return TABLES[name]
