"""Metadata as lines of text, so that any format with comments can hold all of it.

Each top-level entry becomes one line `pdflow KEY JSON`; a key that is not a plain word is quoted.
Tags stand for what JSON lacks: `{"!bytes": base64}` for bytes, `{"!array": base64, "dtype": ...,
"shape": ...}` for arrays. A key that starts with `!` gets a second one, so that it is not read as
a tag.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable
from typing import Any

import numpy as np

PREFIX = "pdflow "
LINE = re.compile(rf'{PREFIX}("(?:[^"\\]|\\.)*"|[^\s"]+) (.*)')


def encode_metadata(metadata: dict[str, Any]) -> list[str]:
    """One line per entry, without line breaks; TypeError for a value that cannot be encoded.

    >>> encode_metadata({"crs": "EPSG:25832", "blob": b"hi"})
    ['pdflow crs "EPSG:25832"', 'pdflow blob {"!bytes": "aGk="}']
    """
    return [f"{PREFIX}{_word(key)} {json.dumps(_pack(value))}" for key, value in metadata.items()]


def decode_metadata(lines: Iterable[str]) -> tuple[dict[str, Any], list[str]]:
    """The metadata in comment lines, and the lines that are plain comments.

    >>> decode_metadata(["by hand", 'pdflow crs "EPSG:25832"', 'pdflow b {"!bytes": "aGk="}'])
    ({'crs': 'EPSG:25832', 'b': b'hi'}, ['by hand'])
    """
    metadata: dict[str, Any] = {}
    comments = []
    for line in lines:
        match = LINE.fullmatch(line)
        try:
            if match is None:
                raise ValueError
            key = json.loads(match[1]) if match[1].startswith('"') else match[1]
            metadata[key] = _unpack(json.loads(match[2]))
        except (
            ValueError,
            TypeError,
            KeyError,
            IndexError,
            OverflowError,
            SyntaxError,
            RecursionError,
        ):
            comments.append(line)
    return metadata, comments


def _word(key: str) -> str:
    """The key as one word of ASCII, in quotes if it is not one already."""
    return key if re.fullmatch(r"[!-~]+", key) and '"' not in key else json.dumps(key)


def _pack(value: Any) -> Any:
    if isinstance(value, bytes):
        return {"!bytes": base64.b64encode(value).decode()}
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        data = base64.b64encode(np.ascontiguousarray(value).tobytes()).decode()
        descr = np.lib.format.dtype_to_descr(value.dtype)
        return {"!array": data, "dtype": descr, "shape": list(value.shape)}
    if isinstance(value, (np.bool_, np.integer, np.floating)):
        return value.item()
    if isinstance(value, dict):
        if not all(isinstance(key, str) for key in value):
            raise TypeError("keys must be str")
        return {f"!{k}" if k.startswith("!") else k: _pack(v) for k, v in value.items()}
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
        dtype = np.lib.format.descr_to_dtype(_tuples(value["dtype"]))
        data = base64.b64decode(value["!array"])
        return np.frombuffer(data, dtype).reshape(value["shape"]).copy()
    return {k.removeprefix("!"): _unpack(v) for k, v in value.items()}


def _tuples(descr: Any) -> Any:
    """The description of a dtype with tuples where JSON has lists."""
    if not isinstance(descr, list):
        return descr
    names = [tuple(name) if isinstance(name, list) else name for name, *_ in descr]
    return [
        (name, _tuples(field[1]), *map(tuple, field[2:]))
        for name, field in zip(names, descr, strict=True)
    ]
