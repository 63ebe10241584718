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
_CODES_AND_BRACKETS = re.compile(
    r"""(?:AUTHORITY|ID)\s*[\[(]\s*"EPSG"\s*,\s*"?([0-9]+)"?\s*[\])]|"[^"]*"|([\[\]()])"""
)
_UNDEFINED, _USER_DEFINED = 0, 32767


def read_crs(records: Iterable[Vlr]) -> str | None:
    """WKT, or else `EPSG:` and the codes of the GeoTIFF keys, or None."""
    by_key = {r.key: r.data for r in records}
    wkt = by_key.get(WKT_VLR, b"").rstrip(b"\0").decode("utf-8", "replace")
    return wkt if wkt.strip() else _epsg(by_key.get(GEOTIFF_KEYS, b""))


def epsg_codes(crs: str) -> str | None:
    """`EPSG:` and the code of a system, or those of its parts joined by +, from WKT or a code.

    >>> epsg_codes('PROJCS["a",GEOGCS["b",AUTHORITY["EPSG","4258"]],AUTHORITY["EPSG","25832"]]')
    'EPSG:25832'
    >>> epsg_codes('COMPOUNDCRS["a",PROJCRS["b",ID["EPSG",25832]],VERTCRS["c",ID["EPSG",7837]]]')
    'EPSG:25832+7837'
    >>> epsg_codes("EPSG:4326"), epsg_codes("LOCAL_CS[]")
    ('EPSG:4326', None)
    """
    if not is_wkt(crs):
        return crs if re.fullmatch(r"EPSG:[0-9+]+", crs) else None
    by_depth: dict[int, list[str]] = {}
    depth = 0
    for code, bracket in _CODES_AND_BRACKETS.findall(crs):
        if code:
            by_depth.setdefault(depth, []).append(code)
        elif bracket:
            depth += 1 if bracket in "[(" else -1
    is_compound = crs.lstrip().upper().startswith("COMP")
    codes = by_depth.get(1) or (by_depth.get(2) if is_compound else None)
    return f"EPSG:{'+'.join(codes)}" if codes else None


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
