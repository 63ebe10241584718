"""What other libraries do with the files that `pdflow.io` reads itself.

    python benchmarks/speed/bench_io_libraries.py [--points N]

It answers three questions. How fast does each library read the cloud of `bench_io.py`, and which
columns come back equal? What does it do with damaged files: truncated at 100 places, with one byte
changed at 300 places, and with a header that promises a billion points? Is a rare LAS file the same
after reading and writing it? The best of three runs counts; a library that is not installed is
skipped.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import resource
import struct
import tempfile
import tracemalloc
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any

import numpy as np
from bench_io import SEED, best, scan

from pdflow import PointCloud, read, write
from pdflow.provenance import describe_machine, source_version

Columns = dict[str, Any]
SMALL = 1000
PROMISED = 10**9
MOST_MEMORY = 16 * 2**30


def with_pdflow(path: Path) -> Columns:
    cloud = read(path)
    return {"points": cloud.points, **cloud.attributes}


def with_laspy(path: Path) -> Columns:
    import laspy

    las = laspy.read(path)
    colors = np.stack([las.red, las.green, las.blue], 1) >> 8
    return {"points": las.xyz, "colors": colors.astype(np.uint8), "intensity": las.intensity}


def with_plyfile(path: Path) -> Columns:
    from plyfile import PlyData

    vertex = PlyData.read(path)["vertex"].data
    return _from_table(vertex)


def with_trimesh(path: Path) -> Columns:
    import trimesh

    cloud = trimesh.load(path)
    return {"points": np.asarray(cloud.vertices), "colors": np.asarray(cloud.colors)[:, :3]}


def with_meshio(path: Path) -> Columns:
    import meshio

    mesh = meshio.read(path)
    return _from_table({**mesh.point_data, **dict(zip("xyz", mesh.points.T, strict=True))})


def with_pypcd4(path: Path) -> Columns:
    from pypcd4 import PointCloud as Pcd

    cloud = Pcd.from_path(path)
    points = cloud.numpy(("x", "y", "z"))
    colors = Pcd.decode_rgb(cloud.pc_data["rgb"])
    return {"points": points, "colors": colors, "intensity": cloud.pc_data["intensity"]}


def with_numpy(path: Path) -> Columns:
    if path.suffix == ".npy":
        return _from_table(np.load(path))
    if path.suffix == ".npz":
        return dict(np.load(path))
    return _from_rows(np.loadtxt(path))


def with_pandas(path: Path) -> Columns:
    import pandas

    return _from_rows(pandas.read_csv(path, sep=r"\s+", header=None, comment="#").to_numpy())


def _from_table(table: Any) -> Columns:
    names = table.dtype.names if isinstance(table, np.ndarray) else tuple(table)
    found: Columns = {"points": np.stack([table[c] for c in "xyz"], 1)}
    if "red" in names:
        found["colors"] = np.stack([table[c] for c in ("red", "green", "blue")], 1)
    return {**found, **{n: np.array(table[n]) for n in ("colors", "intensity") if n in names}}


def _from_rows(rows: Any) -> Columns:
    return {"points": rows[:, :3], "colors": rows[:, 3:6], "intensity": rows[:, 6]}


READERS: dict[str, dict[str, Callable[[Path], Columns]]] = {
    "las": {"pdflow": with_pdflow, "laspy": with_laspy},
    "laz": {"pdflow": with_pdflow, "laspy": with_laspy},
    "ply": {
        "pdflow": with_pdflow,
        "plyfile": with_plyfile,
        "trimesh": with_trimesh,
        "meshio": with_meshio,
    },
    "ply ascii": {"pdflow": with_pdflow, "plyfile": with_plyfile, "trimesh": with_trimesh},
    "pcd": {"pdflow": with_pdflow, "pypcd4": with_pypcd4},
    "pcd binary_compressed": {"pdflow": with_pdflow, "pypcd4": with_pypcd4},
    "npy": {"pdflow": with_pdflow, "numpy": with_numpy},
    "npz": {"pdflow": with_pdflow, "numpy": with_numpy},
    "xyz": {"pdflow": with_pdflow, "numpy": with_numpy, "pandas": with_pandas},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--points", type=int, default=1_000_000, help="points in the cloud")
    points = parser.parse_args().points
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, resource.RLIM_INFINITY))
    warnings.simplefilter("ignore")
    print(describe_machine())
    print(f"commit {source_version()}, seed {SEED}, {points} points")
    print(", ".join(versions()) + "\n")
    with tempfile.TemporaryDirectory() as folder:
        print(f"{'format':22} {'library':8} {'Mpts/s':>7}  equal")
        cloud = scan(points)
        for kind, library, path, reader in readers(cloud, Path(folder)):
            print(f"{kind:22} {library:8} {speed_and_equality(path, reader, cloud)}", flush=True)
        print(f"\n{'format':22} {'library':8} 100 truncated / 300 changed / {PROMISED} promised")
        for kind, library, path, reader in readers(scan(SMALL), Path(folder)):
            if kind != "xyz":
                print(f"{kind:22} {library:8} {behaviour(path, reader)}", flush=True)
        print("\nLAS, read and written again, byte for byte the same")
        for what, data in unusual_las():
            print(f"{what:22} {same_las(Path(folder), data)}")


def versions() -> list[str]:
    names = {library for libraries in READERS.values() for library in libraries} - {"pdflow"}
    installed = [name for name in sorted(names) if importlib.util.find_spec(name) is not None]
    return [f"{name} {importlib.metadata.version(name)}" for name in installed]


def readers(
    cloud: PointCloud, folder: Path
) -> Iterator[tuple[str, str, Path, Callable[[Path], Columns]]]:
    """Format, library, file and reader, for all installed libraries."""
    for kind, libraries in READERS.items():
        suffix, _, variant = kind.partition(" ")
        metadata = {suffix: {"format" if suffix == "ply" else "data": variant}}
        path = folder / f"cloud.{suffix}"
        write(path, PointCloud(cloud.points, cloud.attributes, metadata if variant else {}))
        for library, reader in libraries.items():
            if importlib.util.find_spec(library) is not None:
                yield kind, library, path, reader


def speed_and_equality(path: Path, reader: Callable[[Path], Columns], cloud: PointCloud) -> str:
    try:
        found = reader(path)
        seconds = best(lambda: reader(path))
    except Exception as error:
        return f"refused: {type(error).__name__}: {str(error)[:60]}"
    scale = 1e-4 if path.suffix in (".las", ".laz") else 0.0
    wanted = {"points": cloud.points, **cloud.attributes}
    equal = [
        name
        for name, values in wanted.items()
        if name in found
        and np.allclose(found[name], values, rtol=0, atol=scale)
        and (name == "points" or found[name].dtype == values.dtype)
    ]
    return f"{len(cloud) / 1e6 / seconds:7.2f}  {', '.join(equal) or 'nothing'}"


def behaviour(path: Path, reader: Callable[[Path], Columns]) -> str:
    """How many damaged files are read without an error, and the exceptions of the others."""
    good = path.read_bytes()
    if outcome(path, good, reader):
        return "refuses the valid file"
    rng = np.random.default_rng(SEED)
    cut = [good[:end] for end in np.linspace(1, len(good) - 1, 100, dtype=int)]
    changed = []
    for place, value in rng.integers(0, [[len(good), 255]], (300, 2)).tolist():
        changed.append(good[:place] + bytes([good[place] ^ (value + 1)]) + good[place + 1 :])
    results = []
    for files in (cut, changed):
        outcomes = Counter(outcome(path, data, reader) for data in files)
        accepted = outcomes.pop("", 0)
        names = ", ".join(f"{name} {count}" for name, count in outcomes.most_common())
        results.append(f"{accepted} read, {names}")
    promised = promise(good, path.suffix)
    tracemalloc.start()
    error = outcome(path, promised, reader)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    path.write_bytes(good)
    return f"{results[0]} / {results[1]} / {error or 'read'}, {peak / 1e6:.0f} MB"


def outcome(path: Path, data: bytes, reader: Callable[[Path], Columns]) -> str:
    """The name of the exception, or nothing."""
    path.write_bytes(data)
    try:
        with redirect_stdout(StringIO()):  # meshio prints and exits
            reader(path)
    except BaseException as error:
        return type(error).__name__
    return ""


def promise(data: bytes, suffix: str) -> bytes:
    """A file with another count in its header."""
    many, few = str(PROMISED).encode(), str(SMALL).encode()
    if suffix in (".las", ".laz"):
        data = data[:107] + struct.pack("<I", PROMISED) + data[111:]
        return data[:247] + struct.pack("<Q", PROMISED) + data[255:] if data[25] >= 4 else data
    if suffix == ".pcd":
        return data.replace(b"WIDTH " + few, b"WIDTH " + many).replace(
            b"POINTS " + few, b"POINTS " + many
        )
    if suffix == ".ply":
        return data.replace(b"vertex " + few, b"vertex " + many)
    # The header of NPY has room for more digits: blanks before its line end.
    return data.replace(b"(" + few, b"(" + many).replace(b"      \n", b"\n")


def unusual_las() -> Iterator[tuple[str, bytes]]:
    """LAS files that are valid but rare, made by laspy and changed by hand."""
    if importlib.util.find_spec("laspy") is None:
        return
    import laspy

    def made(extra: bool = False) -> bytearray:
        header = laspy.LasHeader(point_format=1, version="1.2")
        las = laspy.LasData(header)
        las.x, las.y, las.z = np.arange(30.0).reshape(3, 10)
        if extra:
            las.add_extra_dim(laspy.ExtraBytesParams("a", "u2"))
        stream = BytesIO()
        las.write(stream)
        return bytearray(stream.getvalue())

    yield "usual", bytes(made())
    data = made()
    data[26:58] = "Gerät".encode("latin-1").ljust(32, b"\0")
    yield "Latin-1 in the header", bytes(data)
    data = made()
    data[25] = 0
    yield "LAS 1.0", bytes(data)
    data = made(extra=True)
    (start,) = struct.unpack_from("<I", data, 96)
    data[96:104] = struct.pack("<II", 227, 0)
    del data[227:start]
    yield "bytes without a VLR", bytes(data)


def same_las(folder: Path, data: bytes) -> str:
    """What pdflow and laspy give back."""
    import laspy

    source, target = folder / "a.las", folder / "b.las"
    source.write_bytes(data)
    results = []
    for name, copy in (
        ("pdflow", lambda: write(target, read(source))),
        ("laspy", lambda: laspy.read(source).write(str(target))),
    ):
        try:
            copy()
            results.append(f"{name} {'yes' if target.read_bytes() == data else 'no'}")
        except Exception as error:
            results.append(f"{name} {type(error).__name__}")
    return ", ".join(results)


if __name__ == "__main__":
    main()
