from __future__ import annotations

import socket

import pytest

pytest.importorskip("uvicorn", reason="no extra app")


@pytest.fixture
def ended(monkeypatch):
    """An app that ends at once, as after Ctrl-C; the addresses that a browser would open."""

    def stop(_):
        raise KeyboardInterrupt

    opened = []
    monkeypatch.setattr("pdflow.app.server.AppServer.run", stop)
    monkeypatch.setattr("webbrowser.open", opened.append)
    return opened


def test_the_browser_is_opened_unless_told_otherwise(pdflow, ended):
    outcome = pdflow("app")
    assert (outcome.code, outcome.err) == (0, "ended.\n")
    assert ended == [outcome.out.split()[0]]
    assert pdflow("app", "--no-open").out.startswith("http://127.0.0.1:")
    assert len(ended) == 1


def test_a_port_that_is_taken_is_one_sentence(pdflow, ended):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        outcome = pdflow("app", "--port", port)
    assert outcome.code == 2
    assert outcome.err.startswith(f"error: Port {port} cannot be used")
    assert outcome.err.count("\n") == 1
    assert pdflow("app", "--port", "70000").code == 2


def test_without_the_extra_it_is_named(pdflow, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "uvicorn", None)
    outcome = pdflow("app")
    assert (outcome.code, "[app]" in outcome.err) == (2, True)
