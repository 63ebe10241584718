"""The clouds that the app holds, each in a folder of its own that nobody else may read.

All folders lie in one temporary folder, which goes when the app ends. A killed app leaves it
behind; the next one that starts finds that its lock is free and removes it.
"""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from filelock import FileLock, Timeout

from pdflow.app.refusal import Refusal
from pdflow.io.registry import FORMATS, PACKED

SCENE, PAGE, RESULT = "scene.bin", "page.html", "result"
"""Names of the files that a job leaves in its folder; the result has the suffix of the source."""

PREFIX = "pdflow-app-"
LOCK = "lock"

MOST_CLOUDS = 100
"""Clouds held at once; the one that was opened first makes room for another."""

_STALE = 86_400.0  # seconds after which a folder without a lock belongs to nobody
_LONGEST_NAME = 100

State = Literal["receiving", "waiting", "working", "ready", "failed"]


@dataclass
class HeldCloud:
    """A file that a browser sent, and what became of it.

    key      names it in addresses; drawn at random
    name     as the browser gave it, without folders: shown, and never a part of a path
    source   the file; only its suffix comes from outside, and it is one of a known format
    size     bytes
    drop     whether NaN and infinite points are dropped
    step, share  what is being done and how much of it is done
    error    the sentence about what went wrong last
    facts    of the cloud; None until it was read
    result   report of the denoised cloud; None before
    shown    folder of what the viewer shows
    version  counts what was shown, so that a browser sees that there is something new
    """

    key: str
    name: str
    source: Path
    size: int
    drop: bool
    state: State = "receiving"
    step: str = ""
    share: float = 0.0
    error: str = ""
    warnings: list[str] = field(default_factory=list)
    facts: dict[str, Any] | None = None
    result: dict[str, Any] | None = None
    shown: Path | None = None
    version: int = 0

    @property
    def folder(self) -> Path:
        """Everything about this cloud lies here."""
        return self.source.parent

    @property
    def busy(self) -> bool:
        """Whether somebody still reads or writes its files."""
        return self.state in ("receiving", "waiting", "working")

    @property
    def result_name(self) -> str:
        """What the denoised file is called; pdflow writes COPC as plain LAZ."""
        stem = Path(self.name).stem.removesuffix(".copc")
        return f"{stem}_denoised{self.source.suffix}"

    def new_folder(self) -> Path:
        """An empty folder for the files of one job."""
        return Path(tempfile.mkdtemp(dir=self.folder))


class Shelf:
    """All held clouds by key, in the order in which they came.

    most_bytes  that all sources may take together
    """

    def __init__(self, folder: Path, most_bytes: int) -> None:
        self._folder, self._most_bytes = folder, most_bytes
        self._clouds: dict[str, HeldCloud] = {}

    def __len__(self) -> int:
        return len(self._clouds)

    def add(self, name: str, size: int, drop: bool) -> HeldCloud:
        """Make room for a file; an error if its format is unknown or nothing can be moved out."""
        name = clean_name(name)
        suffix = _known_suffix(name)
        self._make_room(size)
        folder = Path(tempfile.mkdtemp(dir=self._folder))
        key = secrets.token_urlsafe(12)
        cloud = HeldCloud(key, name, folder / f"source{suffix}", size, drop)
        self._clouds[key] = cloud
        return cloud

    def get(self, key: str) -> HeldCloud:
        """The cloud with this key."""
        if key not in self._clouds:
            raise Refusal(404, "The app no longer holds this cloud: open the file again.")
        return self._clouds[key]

    def remove(self, cloud: HeldCloud) -> None:
        """Forget a cloud and delete its files."""
        self._clouds.pop(cloud.key, None)
        shutil.rmtree(cloud.folder, ignore_errors=True)

    def _make_room(self, size: int) -> None:
        idle = [cloud for cloud in self._clouds.values() if not cloud.busy]
        while self._is_full(size) and idle:
            self.remove(idle.pop(0))
        if self._is_full(size):
            raise Refusal(503, "The app is busy with other files: try again when they are done.")

    def _is_full(self, size: int) -> bool:
        taken = sum(cloud.size for cloud in self._clouds.values())
        return len(self._clouds) >= MOST_CLOUDS or taken + size > self._most_bytes


def clean_name(name: str) -> str:
    """The last part of a name from a browser, for people to read.

    >>> clean_name("../../etc/pass\\x00wd.ply"), clean_name("C:\\\\scans\\\\a.laz"), clean_name("/")
    ('passwd.ply', 'a.laz', 'cloud')
    """
    last = name.replace("\\", "/").rstrip("/").rpartition("/")[2]
    readable = "".join(c for c in last if c.isprintable()).strip()
    stem, dot, suffix = readable.rpartition(".")
    shortened = f"{stem[:_LONGEST_NAME]}{dot}{suffix[:_LONGEST_NAME]}"
    return shortened if shortened.strip(".") else "cloud"


def _known_suffix(name: str) -> str:
    suffix = Path(name).suffix.lower()
    if suffix in PACKED:
        raise Refusal(415, f"{name} is packed: unpack it first.")
    known = [known for fmt in FORMATS if fmt.points for known in fmt.suffixes]
    if suffix not in known:
        why = f"the suffix {suffix!r}" if suffix else "no suffix"
        raise Refusal(415, f"{name} has {why}: pdflow app opens {', '.join(known)}.")
    return suffix


@contextmanager
def temporary_folder(parent: Path | None = None) -> Iterator[Path]:
    """A locked folder that is gone after the block; folders of killed apps are removed first."""
    parent = parent or Path(tempfile.gettempdir())
    remove_stale(parent)
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
    lock = FileLock(folder / LOCK)
    try:
        with lock:
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def remove_stale(parent: Path) -> None:
    """Remove the folders of apps that no longer run; those of other users are left alone."""
    for folder in parent.glob(f"{PREFIX}*"):
        try:
            state = folder.lstat()
            if folder.is_symlink() or (hasattr(os, "getuid") and state.st_uid != os.getuid()):
                continue
            if not (folder / LOCK).exists():
                if time.time() - state.st_mtime > _STALE:
                    shutil.rmtree(folder, ignore_errors=True)
                continue
            with FileLock(folder / LOCK, timeout=0):
                shutil.rmtree(folder, ignore_errors=True)
        except (OSError, Timeout):  # it still runs, or vanished meanwhile
            continue
