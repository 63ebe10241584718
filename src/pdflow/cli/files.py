"""Which files a command reads and writes: names, patterns, formats, points that are not finite."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

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
        """The result of this input, as it is printed."""
        return {"file": str(self.source), "output": str(self.target), **facts}

    def write(self, cloud: PointCloud, to: str | None) -> None:
        """Write the result, in the format `to` or that of the target's suffix."""
        from pdflow.io import write

        self.make_folder()
        write(self.target, cloud, to)

    def make_folder(self) -> None:
        """Create the output directory if its name was given with a trailing slash."""
        if self.makes_folder:
            try:
                self.target.parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise PdflowError(
                    f"Directory {self.target.parent} cannot be created ({error.strerror}): "
                    "choose another output."
                ) from error


def expand_inputs(names: Sequence[str], folders: bool = False) -> list[Path]:
    """The files that names and patterns match, each once; a pattern's files are sorted.

    folders  whether a directory stands for all clouds in it

    Most shells expand patterns themselves; this also works where they do not (quotes, Windows).
    """
    try:
        return list(dict.fromkeys(path for name in names for path in _expand(name, folders)))
    except OSError as error:
        raise PdflowError(f"{error.filename} cannot be read ({error.strerror}).") from error


def _expand(name: str, folders: bool) -> list[Path]:
    path = Path(name)
    if path.is_dir() and folders:
        return _clouds_in(path)
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


def _clouds_in(folder: Path) -> list[Path]:
    """All files of a directory whose suffix belongs to a format that holds clouds, sorted."""
    from pdflow.io import FORMATS

    suffixes = {suffix for fmt in FORMATS if fmt.points for suffix in fmt.suffixes}
    files = sorted(f for f in folder.iterdir() if f.suffix.lower() in suffixes and f.is_file())
    if not files:
        raise PdflowError(f"{folder} holds no clouds: check the directory.")
    return files


def plan_jobs(sources: Sequence[Path], output: str, suffix: str | None = None) -> list[Job]:
    """Decide where every result goes, before any work is done.

    output  a file for one input, or a directory for any number: one that exists, or a name that
            ends in a slash, which is created with the first result
    suffix  replaces the suffix of the inputs in a directory; None keeps it
    """
    if not output:
        raise PdflowError("The name of the output is empty: give a file or a directory.")
    if output == "-":
        from pdflow.io.atomic import NO_STANDARD_OUTPUT

        raise PdflowError(NO_STANDARD_OUTPUT)
    ends_in_slash = output.endswith(("/", os.sep))
    try:
        is_folder = ends_in_slash or Path(output).is_dir()
    except OSError as error:
        raise PdflowError(f"{output} cannot be written ({error.strerror}).") from error
    if not is_folder:
        if len(sources) > 1:
            raise PdflowError(
                f"{len(sources)} inputs cannot be written to the one file {output}: "
                f"give a directory, such as -o {output}/."
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
                "write them to different directories."
            )
    return jobs


def _in_folder(folder: Path, source: Path, suffix: str | None) -> Path:
    # pdflow reads COPC but writes plain LAZ, so the result must not be called COPC.
    stem = source.stem.removesuffix(".copc")
    return folder / f"{stem}{source.suffix if suffix is None else suffix}"


def split_output(files: Sequence[str], output: str | None) -> tuple[list[str], str]:
    """Inputs and output of a command line that names the output with -o, or last.

    >>> split_output(["a.ply", "b.ply"], None)
    (['a.ply'], 'b.ply')
    """
    if output is not None:
        return list(files), output
    *inputs, output = files
    if not inputs:
        raise PdflowError(f"There is no output for {output}: name it last, or with -o.")
    return inputs, output


def target_format(target: Path, to: str | None) -> Format:
    """The format that an output will have; its error names `--to` instead of `--format`."""
    from pdflow.io import FORMATS, find_format

    if to is None and not any(target.suffix.lower() in fmt.suffixes for fmt in FORMATS):
        known = ", ".join(fmt.name for fmt in FORMATS)
        what = "the suffix belongs to no known format: change it"
        if not target.suffix:
            what = f"a file needs a suffix, and a new directory a slash at its end ({target}/)"
        raise PdflowError(f"{target}: {what}, or add --to with one of {known}.")
    return find_format(target, to)


def plan_clouds(
    inputs: Sequence[str],
    output: str,
    to: str | None,
    suffix_of_format: str | None = None,
    *,
    folders: bool = False,
) -> list[Job]:
    """`plan_jobs` for results that are clouds; an error if an output format holds only meshes.

    to                format of the outputs; None follows their suffixes
    suffix_of_format  format whose suffix files in a directory get when `to` is None; None keeps
                      the suffix of the inputs
    folders           whether an input may be a directory, which stands for all clouds in it
    """
    sources = expand_inputs(inputs, folders)
    jobs = plan_jobs(sources, output, suffix_of(to or suffix_of_format))
    for job in jobs:
        fmt = target_format(job.target, to)
        if not fmt.points:
            raise PdflowError(
                f"{job.target}: {fmt.name} holds meshes, not clouds: choose a format for clouds, "
                "such as ply."
            )
    return jobs


def require_folders(jobs: Sequence[Job]) -> None:
    """Refuse folders that cannot be written to, before minutes of work are wasted."""
    for job in jobs:
        folder = job.target.parent
        while job.makes_folder and not folder.exists():
            folder = folder.parent
        if not folder.is_dir():
            raise PdflowError(
                f"{job.target}: folder {folder} does not exist: create it first, or choose another."
            )
        if not os.access(folder, os.W_OK):
            raise PdflowError(
                f"{job.target}: folder {folder} is write-protected: choose another output."
            )


def suffix_of(format: str | None) -> str | None:
    """The usual suffix of a format; None for None."""
    from pdflow.io import find_format

    return None if format is None else find_format(Path(), format).suffixes[0]


class FiniteChunks:
    """The points of an open file in chunks, without those that are NaN or infinite.

    header   of the file
    whole    whether the file was read at once because its format does not stream
    count    points yielded so far
    dropped  points dropped so far; without `drop` the first such point is an error
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
                    "add --drop-nonfinite to drop such points."
                )
            self.count += len(finite)
            self.dropped += dropped
            self._advance(len(chunk))
            if len(finite):
                yield finite
        if not self.count:
            what = "no finite points" if self.dropped else "no points"
            raise PdflowError(f"{self._path} holds {what}: check the file.")


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
    """A whole cloud without NaN or infinite points, and how many were dropped."""
    from pdflow.cloud import PointCloud

    with open_finite(path, format, drop) as chunks:
        return PointCloud.concatenate(chunks), chunks.dropped


def read_cloud(path: Path, format: str | None, drop: bool) -> PointCloud:
    """`read_finite`, with a line on stderr if points were dropped."""
    cloud, dropped = read_finite(path, format, drop)
    if dropped:
        typer.echo(f"{path}: {len(cloud)} points{say_dropped(dropped)}", err=True)
    return cloud


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Put the file's name in front of errors about its contents."""
    try:
        yield
    except PdflowError as error:
        if str(path) in str(error):
            raise
        raise PdflowError(f"{path}: {error}") from error


def say_dropped(dropped: int) -> str:
    """The end of a sentence: how many points were dropped, if any."""
    return f" ({dropped} NaN or infinite dropped)" if dropped else ""


def _first_nonfinite(cloud: PointCloud) -> int:
    import numpy as np

    return int(np.flatnonzero(~np.isfinite(cloud.points).all(1))[0])
