"""Names of classes."""

from __future__ import annotations

CLASS_NAMES = {
    0: "never classified",
    1: "unclassified",
    2: "ground",
    3: "low vegetation",
    4: "medium vegetation",
    5: "high vegetation",
    6: "building",
    7: "low noise",
    8: "key point",
    9: "water",
    10: "rail",
    11: "road surface",
    12: "overlap",
    13: "wire guard",
    14: "wire conductor",
    15: "transmission tower",
    16: "wire connector",
    17: "bridge deck",
    18: "high noise",
}
"""Names that LAS gives to the codes of its attribute `classification`; 8 and 12 are from before
1.4."""
