"""All tables of a results folder in one Markdown document."""

from __future__ import annotations

import json
import os
from pathlib import Path

from pdflow.bench.layout import Grid, build_grid
from pdflow.bench.peers.rule import tuned_rules
from pdflow.bench.records import Store
from pdflow.bench.tables import TABLES
from pdflow.bench.trends import judge
from pdflow.bench.writers import markdown_text
from pdflow.errors import PdflowError

INTRO = """# Results

Made by `pdflow bench report` from what `pdflow bench` measured; no number is entered by hand. Every
table names the commands, the commit, the machine and the weights that made it. Bold is the best of
what was measured here. Published rows are quoted with their source and were not measured here.
CD, P2M and HD are of squared distances, as in the paper; `oracle` is the noisy input projected onto
the true surface, so it shows what tangential noise alone costs."""

TRENDS = """## Do the paper's trends hold?

Networks of ablations are trained briefly, and all alike (their tables say how): what they show is
the start of a training, not its end. Differences of CD below 1 % count as none."""

PEERS = """## The peers and their parameters

No peer is told the noise level, as ours is not. Where it looks follows from one rule for all
clouds, radius^2 = (a * spacing)^2 + (c * noise)^2, with the spacing and our own estimate of the
noise taken from the noisy cloud; a, c, the number of runs and the one further number of a tool were
tuned once, on held-out training shapes (`benchmarks/tune_peers.py`). The estimate is not counted in
their time.

| peer | a | c | runs | further number |
| --- | ---: | ---: | ---: | ---: |"""

LATENT_FILE, LATENT_PICTURE = "latent.json", "latent.png"
"""What `pdflow latent -o latent.png --json` drew and printed, where it was kept."""
LATENT = """## Latent space

The supplement's experiment, `pdflow latent ... --json`: a patch decoded from four codes. In the
paper an offset of z_p shifts all points alike, and one of z_c moves every point in its own way.

| code | moved by, in patch radii | share of it that is a common shift |
| --- | ---: | ---: |"""


def report_text(folder: Path, page: Path) -> str:
    """The document of all tables in a folder, as it is to stand in the file `page`."""
    grids = measured_grids(folder)
    if not grids:
        raise PdflowError(f"{folder} holds no results: run `pdflow bench TABLE` first.")
    absent = [name for name in TABLES if name not in grids]
    parts = [INTRO, TRENDS]
    parts.append("\n".join(judgement.line() for judgement in judge(grids)))
    parts += [markdown_text(TABLES[name], grid).rstrip() for name, grid in grids.items()]
    if (folder / LATENT_FILE).exists():
        parts.append(_latent(folder / LATENT_FILE))
    if (folder / LATENT_PICTURE).exists():
        place = Path(os.path.relpath(folder / LATENT_PICTURE, page.parent)).as_posix()
        parts.append(f"![The patches of these codes, in the same order]({place})")
    parts.append(_peers())
    if absent:
        parts.append(f"## Not measured yet\n\n{', '.join(absent)}.")
    return "\n\n".join(parts) + "\n"


def measured_grids(folder: Path) -> dict[str, Grid]:
    """Table name -> grid, for the tables that have results, in the order of the paper."""
    grids = {}
    for name in TABLES:
        store = Store.open(folder / f"{name}.jsonl")
        if store.records:
            grids[name] = build_grid(name, store)
    return grids


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
