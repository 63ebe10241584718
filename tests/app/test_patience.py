"""Clients that stop in the middle are given up in time; the limits are shortened here."""

from __future__ import annotations

import asyncio

import pytest
import uvicorn
from starlette.requests import Request
from uvicorn.server import ServerState

from pdflow.app import gate, protocol, uploads
from pdflow.app.refusal import Refusal
from pdflow.app.shelf import Shelf


async def never(*_):
    await asyncio.sleep(60)


async def hello(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"hello"})


async def talk(*parts: bytes) -> bytes:
    """What a server with the patient protocol answers to parts sent 0.05 s apart."""
    config = uvicorn.Config(hello, http=protocol.PatientProtocol, ws="none", log_config=None)
    config.load()
    loop = asyncio.get_running_loop()
    state = ServerState()
    server = await loop.create_server(
        lambda: protocol.PatientProtocol(config, state, {}), "127.0.0.1", 0
    )
    port = server.sockets[0].getsockname()[1]
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for part in parts:
        writer.write(part)
        await asyncio.sleep(0.05)
    answer = await asyncio.wait_for(reader.read(), 30)
    writer.close()
    server.close()
    return answer


def test_half_a_head_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(protocol, "PATIENCE", 0.3)
    assert asyncio.run(talk(b"GET / HT")) == b""


def test_a_head_that_arrives_slowly_is_answered(monkeypatch):
    monkeypatch.setattr(protocol, "PATIENCE", 30)
    answer = asyncio.run(talk(b"GET / HT", b"TP/1.1\r\nHost: x\r\n", b"Connection: close\r\n\r\n"))
    assert answer.endswith(b"hello\r\n0\r\n\r\n")


def test_half_a_file_is_not_waited_for(monkeypatch, tmp_path):
    monkeypatch.setattr(uploads, "STALL", 0.05)
    cloud = Shelf(tmp_path, 100).add("a.ply", 10, False)
    request = Request({"type": "http", "method": "POST", "headers": []}, never)
    with pytest.raises(Refusal, match=r"a\.ply did not arrive"):
        asyncio.run(uploads.receive_file(request, cloud))
    with pytest.raises(Refusal, match="did not arrive"):
        asyncio.run(uploads.small_body(Request(request.scope, never), 10))


def test_a_client_that_never_reads_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(gate, "STALL", 0.05)
    scope = {
        "type": "http",
        "method": "GET",
        "path": "/t/",
        "headers": [(b"host", b"h")],
    }
    with pytest.raises(asyncio.TimeoutError):
        asyncio.run(gate.Gate(hello, "h", "t")(scope, never, never))
