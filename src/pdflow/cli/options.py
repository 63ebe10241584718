"""Options that several commands share, each written once."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from pdflow.errors import PdflowError


def option(usage: str, help: str, **limits: Any) -> Any:
    """A typer option from the way it stands in the help text: flags, then what follows them.

    usage   such as "-o --output DIR", or "--json" for a switch
    limits  min and max of a number
    """
    flags = usage.split()
    metavar = None if flags[-1].startswith("-") else flags.pop()
    return typer.Option(*flags, help=help, metavar=metavar, **limits)


_OUTPUT = option(
    "-o --output OUT",
    "File to write; for several inputs a directory (made if its name ends in /).",
)

Inputs = Annotated[
    list[str],
    typer.Argument(help="Files to read; patterns such as 'scans/*.laz' work too.", metavar="IN"),
]
Output = Annotated[str, _OUTPUT]
OptionalOutput = Annotated[str | None, _OUTPUT]
InputFormat = Annotated[
    str | None, option("--format FORMAT", "Format of the inputs, where the suffix does not tell.")
]
OutputFormat = Annotated[
    str | None, option("--to FORMAT", "Format of the outputs, where the suffix does not tell.")
]
DropNonfinite = Annotated[
    bool,
    option(
        "--drop-nonfinite",
        "Leave out points that are NaN or infinite and say how many; else they are refused.",
    ),
]
Device = Annotated[
    str | None, option("--device DEVICE", "cpu or cuda; default: the best there is.")
]
Seed = Annotated[int, option("--seed SEED", "Same seed, same result.", min=0)]
AsJson = Annotated[
    bool, option("--json", "Print the result as JSON: an object, or a list of them.")
]


def split_names(text: str) -> list[str]:
    """Names with commas between.

    >>> split_names("cd, hd,,p2m")
    ['cd', 'hd', 'p2m']
    """
    return [name.strip() for name in text.split(",") if name.strip()]


def split_numbers(flag: str, text: str) -> list[float]:
    """Numbers with commas between; the error names the option.

    >>> split_numbers("--levels", "0.01,0.02")
    [0.01, 0.02]
    """
    try:
        return [float(word) for word in text.split(",")]
    except ValueError:
        raise PdflowError(f"{flag} is {text!r}: give numbers with commas between.") from None
