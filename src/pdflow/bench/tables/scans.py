"""Clouds as scanners make them: generated scenes that no network was trained on."""

from __future__ import annotations

from dataclasses import dataclass

from pdflow.bench.cases import Case, Cell, Options, percent, thousands
from pdflow.bench.methods import Method, choose_methods
from pdflow.bench.scan_cases import (
    Extra,
    ScanCase,
    filter_method,
    mean_move,
    measure_scan,
    on_scans,
    outlier_shares,
    surface_rms,
    tile_errors,
)
from pdflow.bench.scan_sections import scan_sections
from pdflow.bench.tables.table import Table
from pdflow.errors import PdflowError
from pdflow.scenes.cases import HELD_OUT_SEEDS, KINDS, make_case

SEEDS = 3
"""Scenes of a cell by default."""
SEEDS_APART = 1000
"""Distance between the first scenes of two seeds of a run."""
BASE_POINTS = 10_000
METRES = 0.025
"""Noise of places, in metres."""
SHARES = (0.02, 0.05, 0.2)
OUTLIER_KINDS = {"uniform": "uniform", "clumped": "in clumps", "rays": "along rays"}
OUTLIER_LEVELS = (0.005, 0.01, 0.02)
CLEAN_POINTS = (10_000, 50_000)
CORRELATED = ("correlated", "registration")
"""Kinds of noise that neighbouring points share."""
LOSE_ROWS = ("resample", "oracle", "cgal-wlop", "open3d-outliers", "score-denoise")
"""Methods, and modes of ours, that are not measured: they keep no rows, or know the truth."""


@dataclass(frozen=True)
class Scene:
    """A row of the table, but for its levels.

    kind    one of `pdflow.scenes.cases.KINDS`
    levels  of noise, in radii of the bounding sphere; empty: `METRES`
    extras  columns besides CD, P2M and moves
    share   outliers to add, as a part of the points
    """

    name: str
    kind: str
    points: int = 15_000
    levels: tuple[float, ...] = (0.005, 0.01)
    extras: tuple[Extra, ...] = ()
    share: float = 0.0


SCENES = (
    Scene("scan lines", "scan-lines", 20_000),
    Scene("plates 2 sigma apart", "plates", levels=(0.005, 0.01, 0.02)),
    Scene("rims of plates 4 sigma apart", "double-sheet-rim", levels=(0.005, 0.01, 0.02)),
    Scene("sparse with detail", "sparse-detail", 2000),
    Scene("strokes on fine relief", "strokes", 10_000, (0.001, 0.0025, 0.005)),
    Scene("open sheet", "open-sheet"),
    Scene("sharp edges", "sharp-edges"),
    Scene("rods", "rods"),
    Scene("thin ends", "thin-ends", levels=(0.005, 0.01, 0.02)),
    Scene("fading density", "fading"),
    Scene("holes", "holes"),
    Scene("depth camera", "depth-camera", extras=(surface_rms,)),
    Scene("quantised depth", "quantised"),
    Scene("rotating head", "rotating-head"),
    Scene("correlated noise", "correlated"),
    Scene("registration", "registration"),
    Scene("tile of terrain", "terrain-tile", 20_000, (), (tile_errors,)),
    Scene("street", "street", 20_000, ()),
    *(
        Scene(
            f"{percent(share)} outliers, {where}",
            f"outliers-{kind}",
            levels=OUTLIER_LEVELS,
            extras=(outlier_shares,),
            share=share,
        )
        for kind, where in OUTLIER_KINDS.items()
        for share in SHARES
    ),
)

CLEAN_KINDS = tuple(
    name for name, kind in KINDS.items() if kind.outliers is None and kind.gap is None
)
"""Kinds without outliers; plates are left out because without noise they lie on each other."""


def cells(options: Options) -> list[Cell]:
    """All scenes at their levels, and clean scans of all kinds.

    `--points` replaces the number of points, but takes no more from a scene that is sparse.
    """
    chosen = [
        _cell(options, scene, min(points or scene.points, _most(scene)), level)
        for points in options.points or (None,)
        for scene in SCENES
        for level in scene.levels or (None,)
        if options.levels is None or level in options.levels
    ]
    if options.levels is None or 0.0 in options.levels:
        chosen += [
            _cell(options, Scene("clean input", kind, extras=(mean_move,)), points, 0.0)
            for points in options.points or CLEAN_POINTS
            for kind in CLEAN_KINDS
        ]
    if not chosen:
        raise PdflowError("scans has no such level: choose from 0, 0.001 to 0.005, 0.01, 0.02.")
    return chosen


def _most(scene: Scene) -> int:
    return scene.points if scene.points < BASE_POINTS else 10**9


def _cell(options: Options, scene: Scene, points: int, level: float | None) -> Cell:
    to_remove = scene.share > 0

    def load(shape: str) -> Case:
        noise = {"sigma": METRES} if level is None else {"level": level}
        truth = make_case(scene.kind, int(shape), points, **noise, outlier_share=scene.share)
        return ScanCase.of(truth, to_remove)

    first = HELD_OUT_SEEDS + SEEDS_APART * options.seed
    if isinstance(options.shapes, tuple):
        raise PdflowError("The scenes of `scans` have no names: give --shapes a number.")
    seeds = tuple(str(first + i) for i in range(options.shapes or SEEDS))
    name = f"{1000 * METRES:g} mm" if level is None else percent(level) if level else scene.kind
    correlated = bool({*KINDS[scene.kind].noises} & {*CORRELATED})
    return Cell(
        f"{scene.name}, {thousands(points)}",
        name,
        (),
        seeds,
        load,
        points / BASE_POINTS,
        measure_scan(scene.extras, correlated),
        () if to_remove else (filter_method().name,),
    )


def methods(options: Options) -> list[Method]:
    """Our networks, the noisy input, peers that keep rows, and the statistical filter."""
    statistical = filter_method()
    if options.methods is None:
        chosen = [m for m in choose_methods(None) if not _loses_rows(m.name)]
        return [*map(on_scans, chosen), statistical]
    chosen = choose_methods(name for name in options.methods if name != statistical.name)
    for method in chosen:
        if _loses_rows(method.name):
            raise PdflowError(
                f"{method.name} keeps no rows, which scans compares: leave it out of --methods."
            )
    asked = statistical.name in options.methods
    return [*map(on_scans, chosen), *([statistical] if asked else [])]


def _loses_rows(name: str) -> bool:
    return any(part in LOSE_ROWS for part in name.split(":"))


TABLE = Table(
    "scans",
    "Scans",
    "Errors on simulated scans: uneven density, open and thin surfaces, noise of scanners, "
    "outliers, and clean input",
    "",
    f"Scenes are made by `pdflow.scenes` with seeds from {HELD_OUT_SEEDS:,} on, which are never "
    "trained on; results are means over seeds. CD, and P2M from the points to the surface only "
    "(no scan sees all faces), are squared distances in the clean points' bounding sphere. Mixed "
    "pixels are part of the input, but are not measured. With outliers, pdflow removes them "
    "itself (`outliers='mark'`, marked points dropped), and the other tools get what the "
    "statistical filter (20 neighbours, 1 deviation) leaves: its recall is theirs, and only their "
    "CD is shown. The estimate comes after outliers are removed. `goals`: our first row against "
    "the noisy input, 1.05 x the best other tool in the table (1.0 with outliers), and fixed "
    "limits that each single scene has to keep.",
    cells,
    methods,
    needs_data=False,
    sections=scan_sections,
)
