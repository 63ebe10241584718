"""An E57 file that is being written: its root, then scan after scan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from numpy.typing import NDArray

from pdflow.io.comments import encode_comments
from pdflow.io.e57.buffers import FieldWriter
from pdflow.io.e57.fields import ATTRIBUTES, EXTENSIONS, METADATA, PREFIX, Column, new_field
from pdflow.io.e57.scan import Guid, Scan
from pdflow.io.e57.tree import TreeWriter, is_xml


@dataclass(frozen=True)
class Root:
    """What the root of a file says besides its scans.

    entries     of the tree, by name
    extensions  prefix -> URI, in the order of the file
    lost        metadata that cannot be written
    """

    entries: dict[str, Any]
    extensions: dict[str, str]
    lost: list[str]

    @staticmethod
    def of(
        metadata: Mapping[str, Any],
        kept: Mapping[str, Any],
        columns: list[Column],
        extensions: Mapping[str, str],
        libe57: ModuleType,
    ) -> Root:
        """The root for a cloud with this metadata, of which `kept` came from an E57 file."""
        others = {k: v for k, v in metadata.items() if k not in ("e57", "crs")}
        crs = metadata.get("crs")
        known = isinstance(crs, str) and crs != "" and is_xml(crs)
        if not known and crs is not None:
            others["crs"] = crs
        lines, lost = encode_comments(others)
        notes = encode_comments({"attributes": [c.note() for c in columns if not c.default]})[0]
        own = {METADATA: "\n".join(lines) if lines else None}
        own[ATTRIBUTES] = None if all(c.default for c in columns) else "\n".join(notes)
        used = {f.partition(":")[0] for c in columns for f in c.fields if ":" in f}
        used |= {PREFIX} if any(own.values()) else set()
        entries = {
            "formatName": "ASTM E57 3D Imaging Data File",
            "versionMajor": libe57.E57_FORMAT_MAJOR,
            "versionMinor": libe57.E57_FORMAT_MINOR,
            "e57LibraryVersion": libe57.E57_LIBRARY_ID,
            "coordinateMetadata": crs if known else "",
            **kept,
            **{name: text for name, text in own.items() if text is not None},
        }
        prefixes = {p: uri for p, uri in EXTENSIONS.items() if p in used}
        return Root(entries, {"": libe57.E57_V1_0_URI, **prefixes, **extensions}, lost)


class Target:
    """An open file. The library writes the tree at the end, so it may grow until then."""

    def __init__(self, path: Path, libe57: ModuleType) -> None:
        self._file, self._libe57 = libe57.ImageFile(str(path), "w"), libe57
        self._tree = TreeWriter(self._file, libe57)
        self._fields: FieldWriter | None = None

    @property
    def lost(self) -> list[str]:
        """Metadata that E57 cannot hold."""
        return self._tree.lost

    def begin(self, root: Root) -> None:
        """Write what is known before the points."""
        for prefix, uri in root.extensions.items():
            self._file.extensionsAdd(prefix, uri)
        self._set_all(self._file.root(), root.entries, "e57")
        self._scans = self._libe57.VectorNode(self._file, True)
        self._file.root().set("data3D", self._scans)

    def begin_scan(self, scan: Scan) -> None:
        """Append a scan; its points follow."""
        self._node = self._libe57.StructureNode(self._file)
        self._scans.append(self._node)
        self._set_all(self._node, scan.header, f"e57.scans[{scan.number}]")
        prototype = self._libe57.StructureNode(self._file)
        for name, dtype in scan.types.items():
            prototype.set(name, new_field(dtype, self._file, self._libe57))
        codecs = self._libe57.VectorNode(self._file, True)
        points = self._libe57.CompressedVectorNode(self._file, prototype, codecs)
        self._node.set("points", points)
        self._fields = FieldWriter(points, scan.types, self._file, self._libe57)

    def write(self, fields: Mapping[str, NDArray[Any]]) -> None:
        """Append point fields (M,) to the scan that was begun last."""
        assert self._fields is not None
        self._fields.write(fields)

    def end_scan(self, scan: Scan) -> None:
        """Complete the points of a scan."""
        assert self._fields is not None
        fields, self._fields = self._fields, None
        fields.close()
        self._set_all(self._node, scan.derived(), f"e57.scans[{scan.number}]")

    def complete(self, root: Root, guid: Guid) -> None:
        """Write the tree and close the file."""
        if "guid" not in root.entries:
            self._set_all(self._file.root(), {"guid": str(guid)}, "e57")
        self._file.close()

    def cancel(self) -> None:
        """Give up, whatever state the file is in."""
        try:
            if self._fields is not None:
                self._fields.discard()
        except self._libe57.E57Exception:
            pass  # a full disk is told already
        finally:
            if self._file.isOpen():
                self._file.cancel()

    def _set_all(self, node: Any, entries: Mapping[str, Any], place: str) -> None:
        for name, value in entries.items():
            self._tree.put(partial(node.set, name), value, f"{place}.{name}")
