"""The tree of an E57 file as plain Python: structures as dicts, vectors as lists.

Floats, integers, texts and blobs become float, int, str and bytes, so that the metadata of a cloud
can keep a tree and the writer can restore it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np

from pdflow.lazy import require

_NOT_XML = re.compile("[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def libe57_module(purpose: str) -> ModuleType:
    """The E57 library, or an error that names the extra to install."""
    require("pye57", extra="e57", purpose=purpose)
    return require("pye57.libe57", extra="e57", purpose=purpose)


def is_xml(text: str) -> bool:
    """Whether XML preserves this text."""
    return _NOT_XML.search(text) is None


def child_names(node: Any) -> list[str]:
    """The names of the children of a structure."""
    return [node.get(i).elementName() for i in range(node.childCount())]


def read_tree(node: Any, libe57: ModuleType, skip: frozenset[str] = frozenset()) -> Any:
    """A node and everything below it, without the children named in `skip`.

    Compressed vectors (points and tables of point numbers) are None.
    """
    if isinstance(node, libe57.StructureNode):
        names = [n for n in child_names(node) if n not in skip]
        children = {name: read_tree(node[name], libe57) for name in names}
        return {name: value for name, value in children.items() if value is not None}
    if isinstance(node, libe57.VectorNode):
        return [read_tree(node[i], libe57) for i in range(node.childCount())]
    if isinstance(node, libe57.ScaledIntegerNode):
        return node.scaledValue()
    if isinstance(node, libe57.BlobNode):
        return node.read_buffer().tobytes() if node.byteCount() else b""
    if isinstance(node, libe57.CompressedVectorNode):
        return None
    return node.value()


class TreeWriter:
    """Turns plain Python into nodes of an open file; `lost` names what cannot be a node."""

    def __init__(self, file: Any, libe57: ModuleType) -> None:
        self._file, self._libe57 = file, libe57
        self.lost: list[str] = []

    def put(self, attach: Callable[[Any], None], value: Any, place: str) -> None:
        """Make a node of a value and attach it; `place` names it for the user."""
        try:
            self._put(attach, value, place)
        except (self._libe57.E57Exception, TypeError):  # not a valid element name
            self.lost.append(f"metadata {place!r}")

    def _put(self, attach: Callable[[Any], None], value: Any, place: str) -> None:
        if isinstance(value, dict):
            structure = self._libe57.StructureNode(self._file)
            attach(structure)
            for name, below in value.items():
                self.put(partial(structure.set, name), below, f"{place}.{name}")
        elif isinstance(value, (list, tuple)):
            vector = self._libe57.VectorNode(self._file, True)
            attach(vector)
            for index, below in enumerate(value):
                self.put(vector.append, below, f"{place}[{index}]")
        elif (leaf := self._leaf(value)) is not None:
            attach(leaf)
            if isinstance(value, bytes) and value:  # a blob can be filled only once it is attached
                leaf.write(np.frombuffer(value, np.uint8).copy(), 0, len(value))
        else:
            self.lost.append(f"metadata {place!r}")

    def _leaf(self, value: Any) -> Any:
        libe57 = self._libe57
        if isinstance(value, (bool, int, np.integer)) and -(2**63) <= int(value) < 2**63:
            return libe57.IntegerNode(self._file, int(value))
        if isinstance(value, (float, np.floating)) and math.isfinite(value):
            return libe57.FloatNode(self._file, float(value))
        if isinstance(value, str) and is_xml(value):
            return libe57.StringNode(self._file, value)
        if isinstance(value, bytes):
            return libe57.BlobNode(self._file, len(value))
        return None
