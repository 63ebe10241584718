from __future__ import annotations

import threading
from http.client import HTTPConnection

import pytest

from pdflow import PointCloud
from pdflow.viewer.scene import build_scene
from pdflow.viewer.serve import PageServer
from pdflow.viewer.show import Page


@pytest.fixture
def server():
    with PageServer(Page(build_scene([("a", PointCloud([[0, 0, 0]]))]))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def answer(server, path, method="GET", **headers):
    connection = HTTPConnection("127.0.0.1", server.server_port, timeout=30)
    connection.request(method, path, headers=headers)
    response = connection.getresponse()
    body = response.read()
    connection.close()
    return response, body


def test_the_page_and_its_data_are_behind_the_token(server):
    prefix = server.url.removeprefix(f"http://{server.host}")
    assert len(prefix) >= 22
    response, body = answer(server, prefix)
    assert (response.status, body[:15]) == (200, b"<!doctype html>")
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    response, body = answer(server, f"{prefix}clouds.bin")
    assert (response.status, body[:2]) == (200, b"\x1f\x8b")


@pytest.mark.parametrize("path", ["/", "/clouds.bin", "/wrong/", "/../etc/passwd"])
def test_without_the_token_there_is_nothing(server, path):
    assert answer(server, path)[0].status == 404


def test_foreign_hosts_are_refused(server):
    prefix = server.url.removeprefix(f"http://{server.host}")
    assert answer(server, prefix, Host="evil.example")[0].status == 404


def test_nothing_can_be_sent(server):
    assert answer(server, "/", method="POST")[0].status == 501


def test_only_this_machine_is_served_and_every_token_is_new(server):
    assert server.server_address[0] == "127.0.0.1"
    with PageServer(Page(build_scene([("a", PointCloud([[0, 0, 0]]))]))) as other:
        assert other.url.split("/")[3] != server.url.split("/")[3]
