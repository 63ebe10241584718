"""A file from the browser to the disk: the body of one request, as it is."""

from __future__ import annotations

import asyncio

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from pdflow.app.refusal import Refusal
from pdflow.app.shelf import HeldCloud

STALL = 30.0
"""Seconds without a byte after which an upload is given up."""

_BLOCK = 1 << 20


def announced_size(request: Request, limit: int) -> int:
    """The length of the body; an error if it is not given, or above the limit."""
    words = request.headers.get("content-length", "")
    if not words.isascii() or not words.isdigit():
        raise Refusal(411, "The length of the file is missing: send it with Content-Length.")
    size = int(words)
    if size > limit:
        raise Refusal(
            413,
            f"The file has {size / 1e6:.0f} MB and the limit is {limit / 1e6:.0f} MB: start "
            "`pdflow app` with a higher --limit, or use `pdflow denoise`.",
        )
    if size == 0:
        raise Refusal(400, "The file is empty: choose another one.")
    return size


async def receive_file(request: Request, cloud: HeldCloud) -> None:
    """Write the body to the source of a cloud; an error if it stalls or the disk is full."""
    try:
        with cloud.source.open("xb") as file:
            block = bytearray()
            stream = request.stream()
            while chunk := await asyncio.wait_for(stream.__anext__(), STALL):
                block += chunk
                if len(block) >= _BLOCK:
                    await run_in_threadpool(file.write, bytes(block))
                    block.clear()
            await run_in_threadpool(file.write, bytes(block))
    except asyncio.TimeoutError as error:
        raise Refusal(408, f"{cloud.name} did not arrive: send it again.") from error
    except OSError as error:
        raise Refusal(507, f"{cloud.name} could not be stored ({error.strerror}).") from error


async def small_body(request: Request, most: int) -> bytes:
    """A body of a few bytes; an error if it is longer or stalls."""
    body = bytearray()
    stream = request.stream()
    try:
        while chunk := await asyncio.wait_for(stream.__anext__(), STALL):
            body += chunk
            if len(body) > most:
                raise Refusal(413, "The request is too long.")
    except asyncio.TimeoutError as error:
        raise Refusal(408, "The request did not arrive: send it again.") from error
    return bytes(body)
