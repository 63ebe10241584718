"""Metadata as lines of text, so that any format with comments can hold all of it.

Each top-level entry becomes one line `pdflow KEY JSON`. What JSON lacks is tagged: bytes as
`{"!bytes": base64}`, arrays as `{"!array": base64, "dtype": ..., "shape": ...}`.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from typing import Any

import numpy as np

PREFIX = "pdflow "


def encode_metadata(metadata: dict[str, Any]) -> list[str]:
    """One line per entry, without line breaks inside.

    >>> encode_metadata({"crs": "EPSG:25832", "blob": b"hi"})
    ['pdflow crs "EPSG:25832"', 'pdflow blob {"!bytes": "aGk="}']
    """
    return [f"{PREFIX}{key} {json.dumps(_pack(value))}" for key, value in metadata.items()]


def decode_metadata(lines: Iterable[str]) -> tuple[dict[str, Any], list[str]]:
    """Metadata found in comment lines, and the lines that are plain comments.

    >>> decode_metadata(["by hand", 'pdflow crs "EPSG:25832"', 'pdflow b {"!bytes": "aGk="}'])
    ({'crs': 'EPSG:25832', 'b': b'hi'}, ['by hand'])
    """
    metadata: dict[str, Any] = {}
    comments = []
    for line in lines:
        key, _, text = line.removeprefix(PREFIX).partition(" ")
        try:
            if not line.startswith(PREFIX):
                raise ValueError
            metadata[key] = _unpack(json.loads(text))
        except (ValueError, TypeError, KeyError):
            comments.append(line)
    return metadata, comments


def _pack(value: Any) -> Any:
    if isinstance(value, bytes):
        return {"!bytes": base64.b64encode(value).decode()}
    if isinstance(value, np.ndarray):
        data = base64.b64encode(np.ascontiguousarray(value).tobytes()).decode()
        descr = value.dtype.descr if value.dtype.names else value.dtype.str
        return {"!array": data, "dtype": descr, "shape": list(value.shape)}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, dict):
        return {str(k): _pack(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_pack(v) for v in value]
    return value


def _unpack(value: Any) -> Any:
    if isinstance(value, list):
        return [_unpack(v) for v in value]
    if not isinstance(value, dict):
        return value
    if "!bytes" in value:
        return base64.b64decode(value["!bytes"])
    if "!array" in value:
        dtype = value["dtype"]
        if isinstance(dtype, list):
            dtype = [tuple(tuple(x) if isinstance(x, list) else x for x in d) for d in dtype]
        data = base64.b64decode(value["!array"])
        return np.frombuffer(data, np.dtype(dtype)).reshape(value["shape"]).copy()
    return {k: _unpack(v) for k, v in value.items()}
