"""Comment lines of a file: plain comments as they are, all other metadata encoded.

Long encoded lines are folded because some other programs refuse them: `pdflow KEY JSON` continues
in lines `pdflow+ REST`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pdflow.io.metadata import PREFIX, decode_metadata, encode_metadata

CONTINUED = "pdflow+ "
COMMENTS = "comments"


def decode_text(raw: bytes) -> str:
    """Text of a header: UTF-8, or else Latin-1, which accepts any bytes."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def is_plain_comment(comment: object, width: int | None = None) -> bool:
    """Whether a comment reads back unchanged from a line of its own."""
    return (
        isinstance(comment, str)
        and comment.replace("\t", " ").isprintable()
        and comment == comment.strip()
        and not comment.startswith((PREFIX, CONTINUED))
        and (width is None or len(comment.encode()) <= width)
    )


def encode_comments(
    metadata: Mapping[str, Any], width: int | None = None
) -> tuple[list[str], list[str]]:
    """Comment lines of at most `width` characters that hold the metadata, and what they lose.

    >>> encode_comments({"crs": "EPSG:4326", "comments": ["made by hand"], "odd": object()})
    (['made by hand', 'pdflow crs "EPSG:4326"'], ["metadata 'odd'"])
    """
    comments = metadata.get(COMMENTS)
    plain = bool(comments) and isinstance(comments, list)
    plain = plain and all(is_plain_comment(comment, width) for comment in comments or ())
    lines: list[str] = list(comments or ()) if plain else []
    losses = []
    for key, value in metadata.items():
        if plain and key == COMMENTS:
            continue
        line = _encode_entry(key, value)
        if line is None:
            losses.append(f"metadata {key!r}")
        else:
            lines += _fold(line, width)
    return lines, losses


def decode_comments(lines: Iterable[str]) -> dict[str, Any]:
    """The metadata in comment lines; lines without any become its entry `comments`.

    >>> decode_comments(["made by hand", "pdflow crs", "pdflow+ 1"])
    {'comments': ['made by hand', 'pdflow crs', 'pdflow+ 1']}
    >>> decode_comments(['pdflow crs "EPSG:', 'pdflow+ 4326"'])
    {'crs': 'EPSG:4326'}
    """
    folded: list[list[str]] = []
    for line in lines:
        if line.startswith(CONTINUED) and folded and folded[-1][0].startswith(PREFIX):
            folded[-1].append(line)
        else:
            folded.append([line])
    metadata: dict[str, Any] = {}
    comments: list[str] = []
    for parts in folded:
        whole = parts[0] + "".join(part.removeprefix(CONTINUED) for part in parts[1:])
        found, rest = decode_metadata([whole])
        metadata.update(found)
        comments += [part.strip() for part in parts] if rest else []
    if comments:
        listed = metadata.get(COMMENTS)
        metadata[COMMENTS] = (listed if isinstance(listed, list) else []) + comments
    return metadata


def _encode_entry(key: object, value: Any) -> str | None:
    """The line for one entry; None if reading the line would not give the entry back."""
    try:
        line = encode_metadata({key: value})[0]  # type: ignore[dict-item]
    except (TypeError, ValueError, RecursionError):
        return None
    found, _ = decode_metadata([line])
    one_line = "\n" not in line and "\r" not in line
    return line if one_line and line.isascii() and list(found) == [key] else None


def _fold(line: str, width: int | None) -> list[str]:
    """The line in pieces that, if possible, neither begin nor end with a blank."""
    if width is None or len(line) <= width:
        return [line]
    pieces: list[str] = []
    start = 0
    while start < len(line):
        prefix = CONTINUED if pieces else ""
        limit = end = min(start + width - len(prefix), len(line))
        while end > start and end < len(line) and " " in line[end - 1 : end + 1]:
            end -= 1
        end = end if end > start else limit
        pieces.append(prefix + line[start:end])
        start = end
    return pieces
