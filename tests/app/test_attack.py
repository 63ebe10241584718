"""Many, slow, broken and hostile clients at once: the app keeps answering and keeps nothing."""

from __future__ import annotations

import json
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

UPLOADS, REQUESTS, SLOW = 50, 500, 20
GROWTH = 1.10


def connect(app):
    return socket.create_connection(("127.0.0.1", app.port), timeout=60)


def head(app, method, path, *lines):
    own = (f"{method} {app.prefix}{path} HTTP/1.1", f"Host: {app.host}")
    return "\r\n".join([*own, f"Origin: http://{app.host}", *lines, "", ""]).encode()


def send_and_close(app, data):
    with connect(app) as client:
        client.sendall(data)


def send_and_read(app, data):
    """The first line of the answer; nothing if the app hung up."""
    with connect(app) as client:
        try:
            client.sendall(data)
            return client.recv(200).split(b"\r\n")[0]
        except ConnectionError:
            return b""


def send_form(app, form):
    kind = {"Content-Type": "multipart/form-data; boundary=x"}
    return app.request("POST", "clouds?name=a.ply", form, **kind)[0].status


def upload(app, number, body):
    response, answer = app.request("POST", f"clouds?name=scan{number}.xyz", body)
    return response.status, json.loads(answer)


def get(app, number):
    paths = ["", "clouds/none", "clouds/..%2f..%2fetc%2fpasswd/result", "nothing", "example"]
    hosts = [app.host, app.host, "evil.example"]
    path, host = paths[number % len(paths)], hosts[number % len(hosts)]
    return app.request("GET", path, Host=host)[0].status


def attack(app, body):
    """One round of everything; every client that behaves is answered."""
    broken = head(app, "POST", "clouds?name=a.ply", "Content-Length: 100000") + b"ply\n"
    form = b"--x\r\nContent-Disposition: form-data; name=" + b"n" * (1 << 19)
    with ExitStack() as stack, ThreadPoolExecutor(50) as pool:
        for _ in range(SLOW):  # half of a head, and half of a body, and no more
            stack.enter_context(connect(app)).sendall(head(app, "GET", "")[:60])
            stack.enter_context(connect(app)).sendall(broken)
        uploads = list(pool.map(lambda n: upload(app, n, body), range(UPLOADS)))
        assert {status for status, _ in uploads} == {201}
        for _, answer in uploads:
            assert app.wait(answer["key"])["state"] == "ready"
        statuses = list(pool.map(lambda n: get(app, n), range(REQUESTS)))
        assert {200, 404} <= set(statuses) <= {200, 404, 405}
        list(pool.map(lambda _: send_and_close(app, broken), range(SLOW)))
        long_heads = head(app, "GET", "", "X: " + "y" * (1 << 20))
        answers = list(pool.map(lambda _: send_and_read(app, long_heads), range(5)))
        assert {line[9:12] for line in answers} <= {b"400", b"431", b""}
        # A form is no cloud: its bytes are a broken file, and nobody parses its headers.
        forms = list(pool.map(lambda n: send_form(app, form), range(5)))
        assert set(forms) <= {201, 503}
    settle(app)
    app.forget_all()


def settle(app):
    """Wait for all jobs: a cloud that is closed while it is worked on takes the worker with it."""
    for key in app.keys:
        while True:
            response, answer = app.request("GET", f"clouds/{key}")
            if response.status == 404 or json.loads(answer)["state"] in ("ready", "failed"):
                break
            time.sleep(0.02)


def resident(app):
    """Kilobytes of the server and its worker."""
    (worker,) = app.workers()
    pids = [app.process.pid, worker]
    lines = [Path(f"/proc/{pid}/status").read_text().split("VmRSS:")[1] for pid in pids]
    return sum(int(line.split()[0]) for line in lines)


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc")
def test_the_app_keeps_answering_and_keeps_nothing(app):
    body = "\n".join(f"{x} {y} {x * y % 7 / 50}" for x in range(5) for y in range(5)).encode()
    attack(app, body)
    before = resident(app)
    attack(app, body)
    after = resident(app)
    assert after <= GROWTH * before
    assert app.request("GET", "")[0].status == 200
