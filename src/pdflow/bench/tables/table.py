"""What a table is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pdflow.bench.cases import Cell, Options
from pdflow.bench.layout import Bold, Grid, Lines
from pdflow.bench.methods import Method, choose_methods, references
from pdflow.bench.variants import Training, Variant

Methods = Callable[[Options], list[Method]]


def installed_methods(options: Options) -> list[Method]:
    """The methods named in the options, or all."""
    return choose_methods(options.methods)


def noisy_input(_: Options) -> list[Method]:
    """Only the noisy input: the reference for trained variants."""
    return references()[:1]


@dataclass(frozen=True)
class Table:
    """A table of the paper, or one like them.

    name     of the command and of the files
    title    heading
    shows    what it shows, in a phrase
    source   its place in the paper; empty for a table of our own
    note     how it was made: what a reader must know to judge it
    cells    its cells, for given options
    methods  its rows, for given options
    variants networks that are trained for it and are its rows besides `methods`
    headline column that its opening sentence speaks of
    needs_data  whether it reads files from `--data`
    sections  (grid, bold) -> titles and their lines, instead of one section per block
    """

    name: str
    title: str
    shows: str
    source: str
    note: str
    cells: Callable[[Options], list[Cell]]
    methods: Methods = installed_methods
    variants: Callable[[Training], list[Variant]] | None = None
    headline: str = "cd"
    needs_data: bool = True
    sections: Callable[[Grid, Bold], list[tuple[str, Lines]]] | None = None
