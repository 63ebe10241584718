"""All tables of a results folder in one Markdown document."""

from __future__ import annotations

import json
import os
from pathlib import Path

from pdflow.bench.figures import CURVES, ERRORS, ErrorsShown
from pdflow.bench.layout import Grid, build_grid
from pdflow.bench.peers.rule import tuned_rules
from pdflow.bench.records import Store
from pdflow.bench.tables import TABLES
from pdflow.bench.trends import judge
from pdflow.bench.writers import SECONDS_NOTE, markdown_section, provenance
from pdflow.errors import PdflowError

INTRO = f"""# Results

How pdflow compares with other tools and with published numbers, on the tables of the paper and on
simulated scans.

- Lower is better everywhere. **Bold** is the best value measured here.
- CD, P2M and HD use squared distances, as in the paper.
- `noisy` is the input itself. `oracle` is the input projected onto the true surface: it shows the
  error of tangential noise alone.
- Rows with a source are published numbers, which were not measured here.
- {SECONDS_NOTE}

`pdflow bench report` writes this page from stored results; no number is entered by hand. The last
section lists the weights, commands, commits and machines."""

TRENDS = """## Do the paper's trends hold?

Which of the paper's claims about its design our measurements support."""

HOW_TRENDS = """How it was made: differences of CD below 1 % count as none. The networks of the
ablations are all trained alike and briefly (see their tables), so they compare the first part of a
training, not finished networks."""

PEERS = """## Parameters of the other tools

Each tool has one set of parameters for all clouds, tuned once.

| tool | a | c | runs | further parameter |
| --- | ---: | ---: | ---: | ---: |"""

HOW_PEERS = """How it was made: neither the tools nor pdflow get the noise level. The radius of a
neighbourhood follows from radius^2 = (a * spacing)^2 + (c * noise)^2, with spacing and noise
estimated from the noisy cloud; the time of that estimate is not counted.
`benchmarks/fit/tune_peers.py` tuned a, c, the number of runs and the one further parameter of a
tool on held-out training shapes."""

LATENT_FILE, LATENT_PICTURE = "latent.json", "latent.png"
"""The picture and the output of `pdflow latent -o latent.png --json`, if they were kept."""
LATENT = """## Latent space

A patch decoded from four latent codes, as in the paper's supplement. There, an offset of z_p shifts
all points alike, and an offset of z_c moves each point in its own way.

| code | moved by, in patch radii | share of it that is a common shift |
| --- | ---: | ---: |"""

WORST_PICTURE = "{}-worst.png"
"""The picture that `benchmarks/accuracy/draw_worst_scans.py` makes beside a table's results."""

HOW_LATENT = "How it was made: `pdflow latent IN -o latent.png --json`."

ERRORS_SECTION = "## Errors on the surface"
HOW_ERRORS = (
    "How it was made: `pdflow bench report --data DIR`, commit {}. Mean distances in percent of "
    "the radius: {}."
)

PROVENANCE = """## Provenance

<details markdown>
<summary>Weights, commands, commits and machines of every table</summary>"""


def report_text(folder: Path, page: Path) -> str:
    """The document of all tables in a folder, to be written to the file `page`."""
    grids = measured_grids(folder)
    if not grids:
        raise PdflowError(f"{folder} holds no results: run `pdflow bench TABLE` first.")
    absent = [name for name in TABLES if name not in grids]
    judgements = judge(grids)
    parts = [INTRO, TRENDS]
    parts += ["\n".join(judgement.line() for judgement in judgements), HOW_TRENDS]
    for name, grid in grids.items():
        heading, opening, rest = markdown_section(TABLES[name], grid).split("\n\n", 2)
        verdicts = [each.sentence() for each in judgements if each.table == name]
        parts += [heading, " ".join(filter(None, [opening, *verdicts]))]
        if name in CURVES:
            parts += _picture(folder / f"{name}.png", page, f"CD and P2M over {CURVES[name]}")
        parts.append(rest)
        worst = folder / WORST_PICTURE.format(name)
        parts += _picture(worst, page, "The rows in which pdflow compares worst")
    parts += _errors(folder, page)
    if (folder / LATENT_FILE).exists():
        parts.append(_latent(folder / LATENT_FILE))
        label = "The patches of these codes, in the same order"
        parts += _picture(folder / LATENT_PICTURE, page, label)
        parts.append(HOW_LATENT)
    parts += [_peers(), HOW_PEERS]
    if absent:
        parts.append(f"## Not measured yet\n\n{', '.join(absent)}.")
    parts.append(PROVENANCE)
    parts += [
        f"**{TABLES[name].title}**\n\n" + "\n".join(f"- {fact}" for fact in provenance(grid))
        for name, grid in grids.items()
    ]
    parts.append("</details>")
    return "\n\n".join(parts) + "\n"


def measured_grids(folder: Path) -> dict[str, Grid]:
    """Table name -> grid, for the tables that have results, in the order of TABLES."""
    grids = {}
    for name in TABLES:
        store = Store.open(folder / f"{name}.jsonl")
        if store.records:
            grids[name] = build_grid(name, store)
    return grids


def _picture(file: Path, page: Path, label: str) -> list[str]:
    """A picture as a paragraph of the page, if its file exists."""
    if not file.exists():
        return []
    return [f"![{label}]({Path(os.path.relpath(file, page.parent)).as_posix()})"]


def _errors(folder: Path, page: Path) -> list[str]:
    """The section of the error-coloured clouds, if they were drawn."""
    shown = ErrorsShown.read(folder)
    if shown is None:
        return []
    means = "; ".join(
        f"{shape}: " + ", ".join(f"{name} {mean:.2f}" for name, mean in found.items())
        for shape, found in shown.errors.items()
    )
    return [
        ERRORS_SECTION,
        shown.caption(),
        *_picture(folder / f"{ERRORS}.png", page, "Clouds coloured by their error"),
        HOW_ERRORS.format(shown.commit, means),
    ]


def _latent(path: Path) -> str:
    try:
        results = json.loads(path.read_text())
        lines = [
            f"| {each['code']} | {each['moved']:.3g} | {each['common']:.2f} |" for each in results
        ]
    except (ValueError, KeyError, TypeError) as error:
        raise PdflowError(f"{path} is not what `pdflow latent --json` prints.") from error
    return "\n".join([LATENT, *lines])


def _peers() -> str:
    lines = [PEERS]
    for name, rule in tuned_rules().items():
        numbers = (rule.spacings, rule.noises, rule.repeat, rule.strength)
        lines.append(f"| {name} | {' | '.join(f'{number:g}' for number in numbers)} |")
    return "\n".join(lines)
