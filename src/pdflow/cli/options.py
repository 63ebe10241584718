"""Options that several commands share, each written once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from pdflow.errors import PdflowError


def option(usage: str, help: str, **limits: Any) -> Any:
    """A typer option, written as in the help text: its flags, then the name of its value.

    usage   such as "-o --output DIR", or "--json" for a switch
    limits  min and max of a number
    """
    flags = usage.split()
    metavar = None if flags[-1].startswith("-") else flags.pop()
    return typer.Option(*flags, help=help, metavar=metavar, **limits)


_OUTPUT = option(
    "-o --output OUT",
    "File to write; for several inputs a directory (created if its name ends in /).",
)

Inputs = Annotated[
    list[str],
    typer.Argument(help="Files to read; patterns such as 'scans/*.laz' work too.", metavar="IN"),
]
InputsAndOutput = Annotated[
    list[str],
    typer.Argument(
        help="Files to read (patterns work too), then the file or directory to write unless -o "
        "gives it.",
        metavar="IN... OUT",
    ),
]
Output = Annotated[str, _OUTPUT]
OptionalOutput = Annotated[str | None, _OUTPUT]
InputFormat = Annotated[
    str | None, option("--format FORMAT", "Format of the inputs, if their suffix does not say.")
]
OutputFormat = Annotated[
    str | None, option("--to FORMAT", "Format of the outputs, if their suffix does not say.")
]
DropNonfinite = Annotated[
    bool,
    option(
        "--drop-nonfinite",
        "Drop NaN and infinite points and report how many; without this they are an error.",
    ),
]
Device = Annotated[
    str | None,
    option("--device DEVICE", "cpu, or cuda (gpu means the same); default: cuda if available."),
]
Plot = Annotated[
    Path | None,
    option(
        "--plot FILE",
        "Draw before, after and how far points moved, whole and as a section, as PNG or PDF.",
    ),
]
Seed = Annotated[
    int, option("--seed SEED", "Random seed: the same seed gives the same result.", min=0)
]
AsJson = Annotated[
    bool, option("--json", "Print the result as JSON: one object, or a list for several inputs.")
]


def split_names(text: str) -> list[str]:
    """Names separated by commas.

    >>> split_names("cd, hd,,p2m")
    ['cd', 'hd', 'p2m']
    """
    return [name.strip() for name in text.split(",") if name.strip()]


def split_numbers(flag: str, text: str) -> list[float]:
    """Numbers separated by commas; the error names the option.

    >>> split_numbers("--levels", "0.01,0.02")
    [0.01, 0.02]
    """
    try:
        return [float(word) for word in text.split(",")]
    except ValueError:
        raise PdflowError(f"{flag} is {text!r}: give numbers separated by commas.") from None
