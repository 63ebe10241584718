"""Images as files: PNG, and PDF with the image on one page. Both without loss."""

from __future__ import annotations

import os
import struct
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pdflow.io.atomic import atomic_path

Image = NDArray[np.uint8]
PathLike = str | os.PathLike[str]

PDF_RESOLUTION = 200
"""Pixels per inch of a page."""

_POINTS_PER_INCH = 72


def write_png(path: PathLike, image: Image) -> None:
    """Write an image (height, width, 3) as PNG, atomically."""
    height, width, _ = image.shape
    rows = np.zeros((height, 1 + 3 * width), np.uint8)
    rows[:, 1:] = image.reshape(height, -1)
    rows[1:, 1:] -= image.reshape(height, -1)[:-1]
    rows[1:, 0] = 2  # each row but the first as its difference to the one above
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    with atomic_path(Path(path)) as temporary:
        temporary.write_bytes(
            b"\x89PNG\r\n\x1a\n"
            + _chunk(b"IHDR", header)
            + _chunk(b"IDAT", zlib.compress(rows.tobytes(), 6))
            + _chunk(b"IEND", b"")
        )


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def write_pdf(path: PathLike, image: Image) -> None:
    """Write an image (height, width, 3) as a PDF with one page of its size, atomically."""
    height, width, _ = image.shape
    across, up = (f"{side * _POINTS_PER_INCH / PDF_RESOLUTION:.2f}" for side in (width, height))
    picture = (
        f"/Type /XObject /Subtype /Image /Width {width} /Height {height} "
        "/ColorSpace /DeviceRGB /BitsPerComponent 8 /Filter /FlateDecode"
    )
    page = (
        f"/Type /Page /Parent 2 0 R /MediaBox [0 0 {across} {up}] /Contents 4 0 R "
        "/Resources << /XObject << /I 5 0 R >> >>"
    )
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        f"<< {page} >>".encode(),
        _stream("", f"{across} 0 0 {up} 0 0 cm /I Do".encode()),
        _stream(picture, zlib.compress(image.tobytes(), 6)),
    ]
    body, places = b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n", []
    for number, content in enumerate(objects, 1):
        places.append(len(body))
        body += b"%d 0 obj\n%b\nendobj\n" % (number, content)
    entries = b"".join(b"%010d 00000 n \n" % place for place in places)
    count = len(objects) + 1
    tail = b"xref\n0 %d\n0000000000 65535 f \n%btrailer\n<< /Size %d /Root 1 0 R >>\n"
    end = b"startxref\n%d\n%%%%EOF\n" % len(body)
    with atomic_path(Path(path)) as temporary:
        temporary.write_bytes(body + tail % (count, entries, count) + end)


def _stream(entries: str, data: bytes) -> bytes:
    return f"<< {entries} /Length {len(data)} >>\nstream\n".encode() + data + b"\nendstream"
