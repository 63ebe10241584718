"""Docstrings as Markdown for the site: their lists of arguments, and their examples.

A block of `name  text` lines becomes a list, and a block that begins with `>>>` a listing.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

ENTRY = re.compile(r"(?P<name>\S(?:.{0,60}?\S)?) {2,}(?P<text>\S.*)")


def as_markdown(text: str) -> str:
    """A docstring with its argument lists and examples marked up."""
    return "\n\n".join(_block(block) for block in re.split(r"\n\s*\n", text))


def _block(block: str) -> str:
    lines = block.split("\n")
    if lines[0].startswith(">>>"):
        return "\n".join(["```pycon", *lines, "```"])
    is_list = ENTRY.fullmatch(lines[0]) and all(
        line.startswith(" ") or ENTRY.fullmatch(line) or _is_short(line) for line in lines
    )
    if not is_list or lines[0].startswith(" "):
        return block
    entries: list[str] = []
    for line in lines:
        found = None if line.startswith(" ") else ENTRY.fullmatch(line)
        if found:
            entries.append(f"- `{found['name']}`: {found['text']}")
        else:
            entries[-1] += f" {line.strip()}"
    return "\n".join(entries)


def _is_short(line: str) -> bool:
    """Whether a line is a name alone, whose text stands in the next line."""
    return len(line) < 40 and not line.endswith(".")


class Docstrings(griffe.Extension):
    """Marks up every docstring that is collected."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Change the docstring of an object that was loaded."""
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)
