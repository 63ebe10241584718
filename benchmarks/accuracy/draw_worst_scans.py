"""Draw the scans on which pdflow compares worst with other tools, from the results of a run.

    pdflow bench scans -o FOLDER
    python benchmarks/accuracy/draw_worst_scans.py FOLDER

writes FOLDER/scans-worst.png, which `pdflow bench report` puts below the table: for each of three
cells, by CD or P2M over the better of the noisy input and the best tool, the input, our result and
that of the best tool. Colours are distances to the true surface.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from PIL import Image

from pdflow.bench.cases import Options
from pdflow.bench.layout import Grid, build_grid, column_label
from pdflow.bench.records import Store
from pdflow.bench.report import WORST_PICTURE
from pdflow.bench.scan_cases import ScanCase
from pdflow.bench.scan_sections import Comparison, worst_cells
from pdflow.bench.tables.scans import TABLE
from pdflow.geometry.triangles import closest_on_mesh
from pdflow.render.figure import Legend, compose
from pdflow.render.panels import Panel, View, draw_panels

CELLS = 3
SIZE = (400, 300)
SIGMAS = 3.0
"""Distance to the surface with the last colour."""
COLOURS = 128
VIEW = View(azimuth=30, elevation=35)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    store = Store.open(folder / f"{TABLE.name}.jsonl")
    grid = build_grid(TABLE.name, store)
    images, labels = [], []
    for each in worst_cells(grid, CELLS):
        print(f"{each.place}: {column_label(each.column)} {each.ratio:.2f} x the best other")
        drawn, named = row_of(store, grid, each)
        images += drawn
        labels += named
    legend = Legend("distance to the surface", "sigma", SIGMAS)
    path = folder / WORST_PICTURE.format(TABLE.name)
    sheet = Image.fromarray(compose(images, labels, 3, legend))
    sheet.quantize(COLOURS).save(path, optimize=True)
    print(f"wrote {path}: {path.stat().st_size / 1e3:.0f} kB")


def row_of(store: Store, grid: Grid, worst: Comparison) -> tuple[list[np.ndarray], list[str]]:
    """Pictures of the input, our result and that of the best tool; and their labels."""
    of_cell = [r for r in store.records.values() if r.key[:2] == worst.place and r.values]
    ours = [record for record in of_cell if record.group == "ours"]
    record = max(ours, key=lambda each: each.values[worst.column])
    peers = [row for row in grid.rows if row.group == "peer" and row.method != "statistical"]
    key = (*worst.place, worst.column)
    peer = min((row for row in peers if key in row.values), key=lambda row: row.values[key])
    names = (record.key.method, peer.method)
    options = Options(Path(), Path(), names, seed=record.key.seed)
    (cell,) = [c for c in TABLE.cells(options) if (c.block, c.name) == worst.place]
    case = cell.load(record.key.shape)
    assert isinstance(case, ScanCase)
    clouds = [case.noisy]
    for method in TABLE.methods(options):
        clouds.append(method.denoise(method.load(), case).points)
    off = [np.sqrt(closest_on_mesh(points, case.truth.mesh)[0]) / case.sigma for points in clouds]
    panels = [Panel(points, values) for points, values in zip(clouds, off, strict=True)]
    images = draw_panels(panels, size=SIZE, view=VIEW, value_range=(0, SIGMAS), shaded=False)
    return images, [f"{cell.block}, {cell.name}", *names]


if __name__ == "__main__":
    main()
