"""The rows of a table, ready to run: variants trained, missing tools listed."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from pdflow.bench.cases import Options
from pdflow.bench.methods import Method, require_installed
from pdflow.bench.score_layout import training_clouds
from pdflow.bench.tables.table import Table
from pdflow.bench.variants import Training, Variant, train_variants, trained
from pdflow.device import named_device
from pdflow.errors import PdflowError

PASSES = PARTITIONS = 1
"""Passes and partitions of all trained variants, at every noise level."""
EPS_SEED = 0
"""Seed of the variants that draw eps."""


def variants_of(table: Table, options: Options) -> list[tuple[str, Variant]]:
    """The networks that a table trains, or those named with `--methods`, and their rows.

    Each is trained with `options.train_seeds` seeds, all with the first one before any other.
    """
    return [
        (f"{variant.name} {training.label}", variant)
        for training in (
            Training(options.steps, options.size, seed) for seed in range(options.train_seeds)
        )
        for variant in _chosen(table, options, training)
    ]


def _chosen(table: Table, options: Options, training: Training) -> list[Variant]:
    if table.variants is None:
        return []
    variants = table.variants(training)
    if options.methods is None:
        return variants
    known = {variant.name: variant for variant in variants}
    unknown = [name for name in options.methods if name not in known]
    if unknown:
        raise PdflowError(
            f"{table.name} has no row {unknown[0]!r}: choose from {', '.join(known)}."
        )
    return [known[name] for name in options.methods]


def ready_methods(
    table: Table, options: Options, done: Callable[[float], None]
) -> tuple[list[Method], list[Method]]:
    """The methods that can run here, and those that are not installed.

    done  called with 1 after each variant

    Methods named with `--methods` must be installed.
    """
    methods = table.methods(options)
    variants = variants_of(table, options)
    device = named_device(options.device)
    train_variants(
        [variant for _, variant in variants],
        lambda: training_clouds(options.data),
        options.folder,
        device,
        lambda _: done(1),
    )
    methods += [_variant_method(*named, options, device) for named in variants]
    if options.methods is not None:
        return require_installed(methods), []
    return [m for m in methods if not m.missing], [m for m in methods if m.missing]


def _variant_method(name: str, variant: Variant, options: Options, device: str) -> Method:
    from pdflow.bench.ours import network_method

    # Without a bound on moves: it would hide what a network that fails does.
    network = trained(variant, options.folder, device)
    seed = EPS_SEED if variant.drawn else None
    return network_method(name, network, "points", PASSES, PARTITIONS, max_move=inf, seed=seed)
