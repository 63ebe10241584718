"""The coordinate reference system of a LAS file, read from its records without a CRS library.

The records themselves are kept byte for byte; this text is for people and for other formats.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable

from pdflow.io.las.header import Vlr

WKT_VLR = ("LASF_Projection", 2112)
GEOTIFF_KEYS = ("LASF_Projection", 34735)
CRS_RECORDS = (
    WKT_VLR,
    ("LASF_Projection", 2111),
    GEOTIFF_KEYS,
    ("LASF_Projection", 34736),
    ("LASF_Projection", 34737),
)
_GEOGRAPHIC, _PROJECTED, _VERTICAL = 2048, 3072, 4096
_UNDEFINED, _USER_DEFINED = 0, 32767


def read_crs(records: Iterable[Vlr]) -> str | None:
    """WKT, or else `EPSG:` and the codes of the GeoTIFF keys, or None."""
    by_key = {r.key: r.data for r in records}
    wkt = by_key.get(WKT_VLR, b"").rstrip(b"\0").decode("utf-8", "replace")
    return wkt if wkt.strip() else _epsg(by_key.get(GEOTIFF_KEYS, b""))


def is_wkt(crs: str) -> bool:
    """Whether a text is WKT rather than an authority code.

    >>> is_wkt('GEOGCS["WGS 84",DATUM["WGS_1984"]]'), is_wkt("EPSG:4326")
    (True, False)
    """
    return re.match(r"\s*[A-Za-z_]+\s*[\[(]", crs) is not None


def wkt_vlr(crs: str) -> Vlr:
    """The record that holds a WKT text."""
    return Vlr(*WKT_VLR, "OGC WKT", crs.encode() + b"\0")


def _epsg(keys: bytes) -> str | None:
    """The code of the projected or geographic system, and of the heights if there is one."""
    words = struct.unpack(f"<{len(keys) // 2}H", keys[: len(keys) // 2 * 2])
    entries = zip(words[4::4], words[5::4], words[7::4], strict=False)
    codes = {
        key: value
        for key, location, value in entries
        if location == 0 and value not in (_UNDEFINED, _USER_DEFINED)
    }
    horizontal = codes.get(_PROJECTED, codes.get(_GEOGRAPHIC))
    if horizontal is None:
        return None
    vertical = f"+{codes[_VERTICAL]}" if _VERTICAL in codes else ""
    return f"EPSG:{horizontal}{vertical}"
