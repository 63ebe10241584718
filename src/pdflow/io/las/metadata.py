"""From a LAS header to the metadata of a cloud and back.

Two records of user `pdflow`, written only if needed, hold what LAS cannot: comments, elements
of a PLY file, poses of an E57 file, types that extra bytes lack.
"""

from __future__ import annotations

import struct
from dataclasses import replace
from datetime import date
from typing import Any

from pdflow import __version__
from pdflow.errors import PdflowError
from pdflow.io.comments import decode_comments, encode_comments
from pdflow.io.damage import reason
from pdflow.io.las.crs import CRS_RECORDS, is_wkt, read_crs, wkt_vlr
from pdflow.io.las.header import (
    EXTRA_BYTES_VLR,
    LARGEST_VLR,
    LASZIP_VLR,
    SMALLEST_MINOR,
    WAVEFORM_EVLRS,
    WKT_BIT,
    LasHeader,
    Vlr,
)
from pdflow.io.las.plan import Plan, noted_columns

METADATA_VLR = ("pdflow", 1)
ATTRIBUTES_VLR = ("pdflow", 2)


def by_pdflow(header: LasHeader) -> bool:
    """Whether pdflow made the file from a cloud that did not come from LAS."""
    return str(header.generating_software).startswith("pdflow ")


def read_metadata(header: LasHeader) -> tuple[dict[str, Any], list[dict[str, Any]] | None]:
    """The metadata of a cloud, and the notes of a pdflow writer on its attributes, if any."""
    ours = (METADATA_VLR, ATTRIBUTES_VLR)
    found: dict[tuple[str | bytes, int], dict[str, Any]] = {}
    for record in header.vlrs + header.evlrs:
        if record.key in ours:
            found[record.key] = decode_comments(record.data.decode(errors="replace").split("\n"))
    kept = replace(
        header,
        vlrs=[v for v in header.vlrs if v.key not in (*ours, LASZIP_VLR)],
        evlrs=[v for v in header.evlrs if v.key not in ours],
    )
    crs = read_crs(kept.vlrs + kept.evlrs)
    metadata = {**found.get(METADATA_VLR, {}), "las": kept.as_metadata()}
    if crs:
        metadata["crs"] = crs
    notes = found.get(ATTRIBUTES_VLR, {}).get("attributes")
    return metadata, notes if isinstance(notes, list) else None


def kept_header(metadata: dict[str, Any]) -> LasHeader | None:
    """The header of the LAS file that a cloud comes from, or None."""
    if "las" not in metadata:
        return None
    try:
        return LasHeader.from_metadata(metadata["las"])
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError, struct.error) as error:
        raise PdflowError(
            f"The cloud's metadata['las'] is not a valid LAS header ({reason(error)}): remove it, "
            "and pdflow writes a new one."
        ) from error


def make_header(metadata: dict[str, Any], plan: Plan, many: bool) -> tuple[LasHeader, list[str]]:
    """The header to write, without frame and counts, and the metadata that it cannot hold.

    many  whether the file may have more points than 32 bits can count
    """
    kept = kept_header(metadata)
    header = kept or _new_header(plan)
    header.point_format, header.record_length = plan.point_format, plan.dtype.itemsize
    _describe_extra_bytes(header, plan)
    own = {k: v for k, v in metadata.items() if k not in ("las", "crs")}
    own.update(_write_crs(header, metadata.get("crs")))
    lines, lost = encode_comments(own)
    if lines:
        header.vlrs.append(Vlr(*METADATA_VLR, "metadata", "\n".join(lines).encode()))
    notes = noted_columns(plan, by_pdflow(header))
    if notes is not None:
        text = "\n".join(encode_comments({"attributes": notes})[0])
        header.vlrs.append(Vlr(*ATTRIBUTES_VLR, "attributes", text.encode()))
    header.evlrs += [v for v in header.vlrs if len(v.data) > LARGEST_VLR]
    header.vlrs = [v for v in header.vlrs if len(v.data) <= LARGEST_VLR]
    listed = any(v.key not in WAVEFORM_EVLRS for v in header.evlrs)
    needed = 4 if many or listed else SMALLEST_MINOR[plan.point_format]
    header.minor = max(header.minor, needed)
    return header, lost


def _new_header(plan: Plan) -> LasHeader:
    today = date.today()
    return LasHeader(
        generating_software=f"pdflow {__version__}",
        creation_day=today.timetuple().tm_yday,
        creation_year=today.year,
        # Formats 6 and up require WKT, even without a coordinate system.
        global_encoding=WKT_BIT if plan.point_format >= 6 else 0,
    )


def _describe_extra_bytes(header: LasHeader, plan: Plan) -> None:
    """Replace the descriptors of the file by those of the plan."""
    record = header.find_vlr(EXTRA_BYTES_VLR)
    if record is None:
        record = Vlr(*EXTRA_BYTES_VLR, "extra bytes", b"")
        header.vlrs.append(record)
    record.data = plan.descriptors
    if not record.data:
        header.vlrs.remove(record)


def _write_crs(header: LasHeader, crs: Any) -> dict[str, Any]:
    """Write `crs` into the records of the header; return it if they cannot hold it."""
    if crs is None or crs == read_crs(header.vlrs + header.evlrs):
        return {}
    header.vlrs = [v for v in header.vlrs if v.key not in CRS_RECORDS]
    header.evlrs = [v for v in header.evlrs if v.key not in CRS_RECORDS]
    if not (isinstance(crs, str) and is_wkt(crs)):
        return {"crs": crs}
    header.vlrs.append(wkt_vlr(crs))
    header.global_encoding |= WKT_BIT
    header.minor = max(header.minor, 4)
    return {}
