"""Open the containers whose checksums would refuse a mutant at the door, and close them again.

A mutation of an E57 page, a zip entry or a checkpoint fails its checksum, and the code behind it
is never tried. So those mutants are made inside and the checksums are computed anew, as somebody
who crafts a file would do.
"""

from __future__ import annotations

import io
import json
import struct
import zipfile
from collections.abc import Callable

Change = Callable[[bytes], bytes]

PAGE, PAYLOAD = 1024, 1020


def _crc32c_table() -> list[int]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


_TABLE = _crc32c_table()


def _crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 255] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def change_e57(data: bytes, change: Change) -> bytes:
    """Change the payload of the pages; header and XML keep what they say of lengths."""
    payload = b"".join(data[i : i + PAYLOAD] for i in range(0, len(data), PAGE))
    payload = change(payload)
    payload += bytes(-len(payload) % PAYLOAD)
    pages = (payload[i : i + PAYLOAD] for i in range(0, len(payload), PAYLOAD))
    return b"".join(page + struct.pack(">I", _crc32c(page)) for page in pages)


def change_e57_xml(data: bytes, change: Change) -> bytes:
    """Change the XML of a file; the header follows its new length."""

    def inside(payload: bytes) -> bytes:
        start = payload.index(b"<?xml")
        end = payload.rindex(b"</e57Root>") + len(b"</e57Root>")
        xml = change(payload[start:end])
        pages = -(-(start + len(xml)) // PAYLOAD)
        header = bytearray(payload[:start])
        struct.pack_into("<Q", header, 16, pages * PAGE)
        struct.pack_into("<Q", header, 32, len(xml))
        return bytes(header) + xml

    return change_e57(data, inside)


def change_npz(data: bytes, change: Change) -> bytes:
    """Change the arrays of an archive, and pack them again."""
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(made, "w") as new:
        for name in old.namelist():
            new.writestr(name, change(old.read(name)))
    return made.getvalue()


def change_safetensors_header(data: bytes, change: Change) -> bytes:
    """Change the JSON in front of the tensors; its length is kept up to date."""
    end = 8 + int.from_bytes(data[:8], "little")
    header = change(data[8:end])
    header += b" " * (-len(header) % 8)
    return struct.pack("<Q", len(header)) + header + data[end:]


def change_metadata(data: bytes, change: Change) -> bytes:
    """Change the JSON texts inside the header, without the checksum of a checkpoint."""

    def inside(header: bytes) -> bytes:
        entries = json.loads(header)
        texts = {k: v for k, v in entries["__metadata__"].items() if k != "sha256"}
        entries["__metadata__"] = {
            key: change(text.encode()).decode("utf-8", "replace") for key, text in texts.items()
        }
        return json.dumps(entries).encode()

    return change_safetensors_header(data, inside)


def change_glb(data: bytes, change: Change) -> bytes:
    """Change the JSON of a binary glTF; the lengths of chunk and file follow."""
    length = int.from_bytes(data[12:16], "little")
    text = change(data[20 : 20 + length])
    text += b" " * (-len(text) % 4)
    rest = data[20 + length :]
    size = 20 + len(text) + len(rest)
    return data[:8] + struct.pack("<II", size, len(text)) + data[16:20] + text + rest


CONTAINERS: dict[str, list[Callable[[bytes, Change], bytes]]] = {
    "e57": [change_e57, change_e57_xml],
    "npz": [change_npz],
    "glb": [change_glb],
    "weights": [change_safetensors_header, change_metadata],
    "checkpoint": [change_safetensors_header, change_metadata],
}
"""Kind -> the ways into its files."""
