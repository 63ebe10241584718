"""Which files a command reads and writes: names, patterns, formats, points that are not finite."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pdflow.cli.progress import Result, progress
from pdflow.errors import PdflowError

if TYPE_CHECKING:
    from pdflow.cloud import PointCloud
    from pdflow.io import Format, Reader


@dataclass(frozen=True)
class Job:
    """One input and where its result goes."""

    source: Path
    target: Path
    makes_folder: bool = False

    def result(self, **facts: Any) -> Result:
        """What is said of this input at the end."""
        return {"file": str(self.source), "output": str(self.target), **facts}

    def write(self, cloud: PointCloud, to: str | None) -> None:
        """Write the result, in the format `to` or that of the target's suffix."""
        from pdflow.io import write

        self.make_folder()
        write(self.target, cloud, to)

    def make_folder(self) -> None:
        """Make the output directory, if it was asked for with a trailing slash."""
        if self.makes_folder:
            try:
                self.target.parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise PdflowError(
                    f"{self.target.parent} cannot be made a directory ({error.strerror}): "
                    "choose another output."
                ) from error


def expand_inputs(names: Sequence[str]) -> list[Path]:
    """The files that names and patterns mean, in the order given, each once; a pattern's sorted.

    The shell has often expanded patterns already; where it did not (quotes, Windows), this does.
    """
    try:
        return list(dict.fromkeys(path for name in names for path in _expand(name)))
    except OSError as error:
        raise PdflowError(f"{error.filename} cannot be read ({error.strerror}).") from error


def _expand(name: str) -> list[Path]:
    path = Path(name)
    if path.is_dir():
        raise PdflowError(f"{name} is a directory: name files in it, such as {path}/*.ply.")
    if path.exists():
        return [path]
    if not glob.has_magic(name):
        raise PdflowError(f"{name} does not exist: check the name.")
    # Path.glob takes no absolute patterns, so glob.glob it is.
    matches = map(Path, glob.glob(name, recursive=True))  # noqa: PTH207
    files = sorted(match for match in matches if not match.is_dir())
    if not files:
        raise PdflowError(f"{name} matches no file: check the pattern.")
    return files


def plan_jobs(sources: Sequence[Path], output: str, suffix: str | None = None) -> list[Job]:
    """Decide where every result goes, before any work is done.

    output  a file for one input; a directory for any number: one that exists, or a name that
            ends in a slash, which is made when the first result is there
    suffix  what replaces the suffix of the inputs in a directory; None keeps it
    """
    if not output:
        raise PdflowError("The name of the output is empty: name a file, or a directory.")
    ends_in_slash = output.endswith(("/", os.sep))
    try:
        is_folder = ends_in_slash or Path(output).is_dir()
    except OSError as error:
        raise PdflowError(f"{output} cannot be written ({error.strerror}).") from error
    if not is_folder:
        if len(sources) > 1:
            raise PdflowError(
                f"{len(sources)} inputs cannot go into the one file {output}: "
                f"name a directory, such as -o {output}/."
            )
        return [Job(sources[0], Path(output))]
    jobs = [
        Job(source, _in_folder(Path(output), source, suffix), ends_in_slash) for source in sources
    ]
    taken: dict[str, Path] = {}
    for job in jobs:
        # Case is ignored because some file systems ignore it: a.ply and A.ply are one file there.
        other = taken.setdefault(str(job.target).casefold(), job.source)
        if other != job.source:
            raise PdflowError(
                f"{other} and {job.source} would both be written to {job.target}: "
                "run them apart, into different directories."
            )
    return jobs


def _in_folder(folder: Path, source: Path, suffix: str | None) -> Path:
    # A COPC file is never written as one, so its result is not called so either.
    stem = source.stem.removesuffix(".copc")
    return folder / f"{stem}{source.suffix if suffix is None else suffix}"


def target_format(target: Path, to: str | None) -> Format:
    """The format that an output will have; the error speaks of `--to`, not of `--format`."""
    from pdflow.io import FORMATS, find_format

    if to is None and not any(target.suffix.lower() in fmt.suffixes for fmt in FORMATS):
        known = ", ".join(fmt.name for fmt in FORMATS)
        raise PdflowError(
            f"{target}: the name ends in the suffix of no known format: change it, or add --to "
            f"with one of {known}."
        )
    return find_format(target, to)


def plan_clouds(
    inputs: Sequence[str], output: str, to: str | None, suffix_of_format: str | None = None
) -> list[Job]:
    """`plan_jobs` for results that are clouds; an error where an output could hold none.

    to                format of the outputs; None follows their suffixes
    suffix_of_format  format whose suffix files in a directory get when `to` is None; None keeps
                      the suffix of the inputs
    """
    jobs = plan_jobs(expand_inputs(inputs), output, suffix_of(to or suffix_of_format))
    for job in jobs:
        fmt = target_format(job.target, to)
        if not fmt.points:
            raise PdflowError(
                f"{job.target}: {fmt.name} holds meshes, not clouds: choose a format for clouds, "
                "such as ply."
            )
    return jobs


def require_folders(jobs: Sequence[Job]) -> None:
    """Refuse folders that cannot be written in, before work of minutes is done for nothing."""
    for job in jobs:
        folder = job.target.parent
        while job.makes_folder and not folder.exists():
            folder = folder.parent
        if not folder.is_dir():
            raise PdflowError(
                f"{job.target}: folder {folder} does not exist: make it first, or name another."
            )
        if not os.access(folder, os.W_OK):
            raise PdflowError(
                f"{job.target}: folder {folder} is write-protected: name another output."
            )


def suffix_of(format: str | None) -> str | None:
    """The usual suffix of a format; None for None."""
    from pdflow.io import find_format

    return None if format is None else find_format(Path(), format).suffixes[0]


class FiniteChunks:
    """The points of an open file in chunks, without those that are NaN or infinite.

    header   what the file says of itself
    whole    whether the file was read at once because its format does not stream
    count    points given out so far
    dropped  points left out so far; without `drop` the first such point is an error
    """

    def __init__(
        self, reader: Reader, path: Path, drop: bool, advance: Callable[[float], None]
    ) -> None:
        from pdflow.io.stream import MemoryReader

        self.header = reader.header
        self.whole = isinstance(reader, MemoryReader)
        self.count = self.dropped = 0
        self._reader, self._path, self._drop, self._advance = reader, path, drop, advance

    def __iter__(self) -> Iterator[PointCloud]:
        from pdflow.io import CHUNK, drop_nonfinite

        for chunk in self._reader.chunks(CHUNK):
            finite, dropped = drop_nonfinite(chunk)
            if dropped and not self._drop:
                row = self.count + _first_nonfinite(chunk)
                raise PdflowError(
                    f"{self._path}: the point in row {row} (counted from 0) is NaN or infinite: "
                    "add --drop-nonfinite to leave such points out."
                )
            self.count += len(finite)
            self.dropped += dropped
            self._advance(len(chunk))
            if len(finite):
                yield finite
        if not self.count:
            left = ", for no point in it is finite" if self.dropped else ", for it holds no points"
            raise PdflowError(f"{self._path} gives nothing to work on{left}: check the file.")


@contextmanager
def open_finite(path: Path, format: str | None, drop: bool) -> Iterator[FiniteChunks]:
    """Open a cloud for reading in chunks, with a progress bar."""
    from pdflow.io import open_reader

    with (
        open_reader(path, format) as reader,
        progress(path.name, reader.header.count) as advance,
    ):
        yield FiniteChunks(reader, path, drop, advance)


def read_finite(path: Path, format: str | None, drop: bool) -> tuple[PointCloud, int]:
    """A whole cloud without NaN or infinite points, and how many were left out."""
    from pdflow.cloud import PointCloud

    with open_finite(path, format, drop) as chunks:
        return PointCloud.concatenate(chunks), chunks.dropped


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Let errors on a file's contents, which do not know its name, begin with it."""
    try:
        yield
    except PdflowError as error:
        if str(path) in str(error):
            raise
        raise PdflowError(f"{path}: {error}") from error


def say_dropped(dropped: int) -> str:
    """The end of a sentence on what was done: how many points were left out, if any."""
    return f" ({dropped} NaN or infinite left out)" if dropped else ""


def _first_nonfinite(cloud: PointCloud) -> int:
    import numpy as np

    return int(np.flatnonzero(~np.isfinite(cloud.points).all(1))[0])
