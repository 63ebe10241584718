"""NPZ: named arrays, one of which holds the points.

The points are the array `points`, or `xyz`, or else the only (M, 3) array of numbers. Other arrays
with one row per point are attributes, the rest is `metadata["arrays"]`. All other metadata is text
in the array `pdflow`. pdflow never pickles or unpickles.
"""

from __future__ import annotations

import lzma
import struct
import zipfile
import zlib
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdflow.cloud import PointCloud
from pdflow.errors import PdflowError
from pdflow.io.comments import decode_comments, encode_comments
from pdflow.io.damage import reason
from pdflow.io.losses import warn_of_losses
from pdflow.io.npy import PickledError, describe, read_array, write_array

POINT_NAMES = ("points", "xyz")
TEXT = "pdflow"
"""The array with the metadata, as lines of text."""

ARRAYS = "arrays"
"""The metadata entry for arrays without one row per point."""

NAMES = "npz"
"""The entry, in the file only, for attributes whose names are not valid for an array."""

SMALL = 2**28
"""Bytes that any file may unpack to."""

MAX_EXPANSION = 200
"""Bytes beyond that for each byte of a file: no measured cloud shrinks by such a factor."""

ZIP_ERRORS = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    NotImplementedError,  # a compression or feature that zipfile does not know
    RuntimeError,  # encrypted
    OSError,
    ValueError,
    struct.error,
)

Arrays = dict[str, NDArray[Any]]


def read(path: Path) -> PointCloud:
    """Read the cloud in an NPZ file."""
    arrays = _read_arrays(path)
    metadata = _take_metadata(arrays)
    points = arrays.pop(_find_points(path, arrays))
    names = metadata.pop(NAMES, None)
    names = names if isinstance(names, dict) else {}
    attributes: Arrays = {}
    others: Arrays = {}
    for entry, array in arrays.items():
        if _is_per_point(array, len(points)):
            attributes[str(names.get(entry, entry))] = array
        else:
            others[entry] = array
    known = metadata.get(ARRAYS, {})
    if others and isinstance(known, dict):
        metadata[ARRAYS] = {**others, **known}
    return PointCloud(points, attributes, metadata)


def write(path: Path, cloud: PointCloud) -> None:
    """Write points, attributes and metadata as arrays, uncompressed."""
    arrays: Arrays = {POINT_NAMES[0]: cloud.points}
    metadata = dict(cloud.metadata)
    losses = []
    names: dict[str, str] = {}
    for name, values in cloud.attributes.items():
        if values.dtype.hasobject:
            losses.append(f"attribute {name!r} (Python objects)")
            continue
        entry = name
        while not _is_free(entry, arrays):
            entry = f"attribute_{len(arrays)}" if entry == name else f"{entry}_"
        arrays[entry] = values
        if entry != name:
            names[entry] = name
    if names:
        metadata[NAMES] = names

    others = metadata.get(ARRAYS)
    if isinstance(others, dict):
        # An array that would read back as an attribute, or not at all, goes into the text.
        plain = {name: a for name, a in others.items() if _is_plain(name, a, len(cloud), arrays)}
        arrays.update(plain)
        metadata[ARRAYS] = {name: a for name, a in others.items() if name not in plain}
        if plain and not metadata[ARRAYS]:
            del metadata[ARRAYS]

    lines, lost = encode_comments(metadata)
    if lines:
        arrays[TEXT] = np.array("\n".join(lines).encode())
    warn_of_losses("NPZ", losses + lost)
    with zipfile.ZipFile(path, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                write_array(file, array)


def _read_arrays(path: Path) -> Arrays:
    """All arrays of the archive; a warning names those that cannot be read."""
    arrays: Arrays = {}
    losses = []
    try:
        with zipfile.ZipFile(path) as archive:
            _check_sizes(path, archive.infolist())
            for info in archive.infolist():
                name = info.filename.removesuffix(".npy")
                if name == info.filename:
                    losses.append(f"member {name!r} (not an array)")
                    continue
                try:
                    with archive.open(info) as file:
                        arrays[name] = read_array(file, info.file_size, f"{path}: array {name!r}")
                except PickledError:
                    losses.append(f"array {name!r} (Python objects)")
    except ZIP_ERRORS as error:
        raise PdflowError(
            f"{path} is not a valid NPZ file ({reason(error)}): fetch or save it again."
        ) from error
    warn_of_losses("A cloud", losses)
    return arrays


def _check_sizes(path: Path, members: list[zipfile.ZipInfo]) -> None:
    """Refuse members that share bytes of the file, or claim to unpack to far more than it has."""
    in_order = sorted(members, key=lambda member: member.header_offset)
    for member, after in pairwise(in_order):
        if member.header_offset + member.compress_size >= after.header_offset:
            raise PdflowError(
                f"{path}: its members {member.filename!r} and {after.filename!r} overlap: it is "
                "damaged, fetch or save it again."
            )
    total = sum(member.file_size for member in members)
    if total > SMALL + MAX_EXPANSION * path.stat().st_size:
        raise PdflowError(
            f"{path}: its arrays claim {total} bytes, more than a file of "
            f"{path.stat().st_size} bytes should hold: save it without compression."
        )


def _take_metadata(arrays: Arrays) -> dict[str, Any]:
    """Remove the text array, if there is one, and return the metadata in it."""
    text = arrays.get(TEXT)
    if text is None or text.ndim or text.dtype.kind != "S":
        return {}
    lines = arrays.pop(TEXT).item().decode("utf-8", "replace")
    return decode_comments(lines.split("\n"))


def _find_points(path: Path, arrays: Arrays) -> str:
    """The name of the array that holds the points."""
    candidates = [
        name
        for name, array in arrays.items()
        if array.ndim == 2 and array.shape[1] == 3 and array.dtype.kind in "iuf"
    ]
    for name in POINT_NAMES:
        if name in candidates:
            return name
    if len(candidates) != 1:
        found = ", ".join(
            f"{name} ({describe(array.dtype, array.shape)})" for name, array in arrays.items()
        )
        raise PdflowError(
            f"{path} holds {len(candidates)} arrays that could be the points, among: "
            f"{found or 'nothing'}: name one (M, 3) array of numbers 'points'."
        )
    return candidates[0]


def _is_per_point(array: NDArray[Any], count: int) -> bool:
    return array.ndim in (1, 2) and len(array) == count


def _is_free(name: object, arrays: Arrays) -> bool:
    """Whether this name is valid for an array and free."""
    return (
        isinstance(name, str)
        and 0 < len(name) < 1000
        and name.isprintable()
        and name not in arrays
        and name != TEXT
    )


def _is_plain(name: object, array: object, count: int, arrays: Arrays) -> bool:
    """Whether an entry of metadata["arrays"] reads back from an array of its own."""
    return (
        isinstance(array, np.ndarray)
        and not array.dtype.hasobject
        and not _is_per_point(array, count)
        and _is_free(name, arrays)
    )
