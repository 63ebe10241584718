"""What strangers may not do: other sites, other programs, names that are paths, large files."""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from http.client import HTTPConnection
from pathlib import Path

import pytest

from pdflow.app.shelf import MOST_CLOUDS, Refusal, Shelf, clean_name, remove_stale, temporary_folder


def answer(app, path, **headers):
    connection = HTTPConnection("127.0.0.1", app.port, timeout=30)
    connection.request("GET", path, headers={"Host": app.host, **headers})
    response = connection.getresponse()
    body = response.read()
    connection.close()
    return response, body


def test_every_answer_is_strict(app):
    for path in ("", "nothing", "clouds/none"):
        response, _ = app.request("GET", path)
        assert response.headers["X-Content-Type-Options"] == "nosniff"
        assert response.headers["Referrer-Policy"] == "no-referrer"
        assert response.headers["Cache-Control"] == "no-store"
        assert "frame-ancestors 'none'" in response.headers["Content-Security-Policy"]
        assert response.headers["Server"] is None
    _, page = app.request("GET", "")
    policy = page.split(b'Content-Security-Policy" content="')[1].split(b'"')[0].decode()
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'"
    assert rules["connect-src"] == rules["frame-src"] == "'self'"
    assert rules["script-src"].startswith("'sha256-")
    assert b"http://" not in page
    assert b"https://" not in page


@pytest.mark.parametrize("path", ["/", "/clouds", "/wrong/", "/../etc/passwd", "//", "/%2e%2e/"])
def test_without_the_token_there_is_nothing(app, path):
    assert answer(app, path)[0].status == 404


def test_a_token_is_long_and_every_character_counts(app):
    token = app.prefix.strip("/")
    assert len(token) >= 32
    other = "A" if token[-1] != "A" else "B"
    assert answer(app, f"/{token[:-1]}{other}/")[0].status == 404
    assert answer(app, f"/{token}")[0].status == 404
    assert answer(app, f"/{token}/")[0].status == 200


@pytest.mark.parametrize("host", ["evil.example", "localhost", "127.0.0.1:1", ""])
def test_foreign_hosts_are_refused(app, host):
    assert app.request("GET", "", Host=host)[0].status in (400, 404)


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_requests_of_other_sites_are_refused(app, headers):
    assert app.request("POST", "example", **headers)[0].status == 403
    assert app.request("GET", "", **headers)[0].status == 403
    assert app.files() == []


def test_a_request_that_changes_something_names_its_origin(app):
    connection = HTTPConnection("127.0.0.1", app.port, timeout=30)
    connection.request("POST", f"{app.prefix}example", headers={"Host": app.host})
    assert connection.getresponse().status == 403
    connection.close()


def test_only_this_machine_is_served(app):
    listening = Path("/proc/net/tcp").read_text() if Path("/proc/net/tcp").exists() else ""
    if not listening:
        pytest.skip("needs /proc")
    port = f"{app.port:04X}"
    addresses = {line.split()[1] for line in listening.splitlines()[1:]}
    assert {a for a in addresses if a.endswith(f":{port}")} == {f"0100007F:{port}"}


@pytest.mark.parametrize(
    "name",
    [
        "../../evil.ply",
        "/etc/cron.d/evil.ply",
        "..%5C..%5Cevil.ply",
        "evil%00.ply",
        "a%0d%0aSet-Cookie:x.ply",
        "x" * 500 + ".ply",
        "%F0%9F%92%A9.ply",
        ".ply",
    ],
)
def test_names_are_shown_and_never_paths(app, name):
    response, body = app.request("POST", f"clouds?name={name}", b"ply\n")
    if response.status == 415:  # ".ply" is a name without a suffix
        return
    key = json.loads(body)["key"]
    state = app.wait(key)
    assert state["name"].isprintable()
    assert not {"/", "\\"} & set(state["name"])
    assert len(state["name"]) < 250
    assert app.files() == []  # a file that cannot be read is not kept


@pytest.mark.parametrize(
    ("name", "expected"),
    [("a/b.ply", "b.ply"), ("..", "cloud"), ("", "cloud"), ("\x1b[1m.ply", "[1m.ply")],
)
def test_names_are_cleaned(name, expected):
    assert clean_name(name) == expected


@pytest.mark.parametrize("name", ["a.zip", "a.exe", "a", "a.obj", ""])
def test_only_clouds_are_taken(app, name):
    response, body = app.request("POST", f"clouds?name={name}", b"x")
    assert response.status == 415
    assert json.loads(body)["error"].endswith(".")


def test_a_file_too_large_is_refused_before_it_arrives(app):
    with socket.create_connection(("127.0.0.1", app.port), timeout=30) as client:
        head = (
            f"POST {app.prefix}clouds?name=a.ply HTTP/1.1\r\nHost: {app.host}\r\n"
            f"Origin: http://{app.host}\r\nContent-Length: 1000001\r\n\r\n"
        )
        client.sendall(head.encode())
        said = client.makefile("rb").read()
    assert b" 413 " in said.splitlines()[0]
    assert b"the limit is 1 MB" in said
    assert app.files() == []


def test_bodies_without_a_length_are_refused(app):
    headers = {"Transfer-Encoding": "chunked"}
    response, _ = app.request("POST", "clouds?name=a.ply", b"1\r\nx\r\n0\r\n\r\n", **headers)
    assert response.status == 411
    assert app.request("POST", "clouds?name=a.ply", b"")[0].status == 400


def test_keys_of_others_are_not_found(app):
    for path in ("clouds/x", "clouds/x/result", "clouds/x/page", "clouds/x/view/1/"):
        assert app.request("GET", path)[0].status == 404
    assert app.request("GET", "clouds/..%2f..%2fetc%2fpasswd/result")[0].status == 404
    assert app.request("PUT", "clouds")[0].status == 405


def test_the_oldest_cloud_makes_room_and_busy_ones_stay(tmp_path):
    shelf = Shelf(tmp_path, most_bytes=100)
    first, second = shelf.add("a.ply", 40, False), shelf.add("b.ply", 40, False)
    first.state = "ready"
    third = shelf.add("c.ply", 40, False)
    assert not first.folder.exists()
    assert second.folder.exists()
    assert third.folder.exists()
    with pytest.raises(Refusal, match="busy"):
        shelf.add("d.ply", 40, False)
    for _ in range(MOST_CLOUDS - len(shelf)):
        shelf.add("e.ply", 0, False)
    with pytest.raises(Refusal, match="busy"):
        shelf.add("f.ply", 0, False)


def test_files_are_private_and_gone_after_the_block(tmp_path):
    with temporary_folder(tmp_path) as folder:
        assert folder.stat().st_mode & 0o077 == 0
        assert Shelf(folder, 100).add("a.ply", 1, False).folder.stat().st_mode & 0o077 == 0
        remove_stale(tmp_path)  # as another app does when it starts
        assert folder.exists()
    assert list(tmp_path.iterdir()) == []


def is_running(pid):
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc")
def test_what_a_killed_app_left_is_removed_by_the_next_one(app_class, tmp_path, scan):
    folder = tmp_path / "temporary"
    folder.mkdir()
    killed = app_class(folder)
    killed.open(scan)
    assert killed.files()
    workers = killed.workers()
    killed.process.send_signal(signal.SIGKILL)
    killed.process.wait()
    killed.process.communicate()
    assert killed.files()
    other = app_class(folder)
    assert len(list(folder.iterdir())) == 1
    assert other.files() == []
    other.end()
    end = time.monotonic() + 30
    while any(is_running(pid) for pid in workers) and time.monotonic() < end:
        time.sleep(0.05)
    assert not any(is_running(pid) for pid in workers)  # a worker does not outlive its server


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="needs POSIX")
def test_links_and_young_folders_without_a_lock_are_left_alone(tmp_path):
    (tmp_path / "pdflow-app-young").mkdir()
    (tmp_path / "mine").mkdir()
    (tmp_path / "pdflow-app-link").symlink_to(tmp_path / "mine")
    old = tmp_path / "pdflow-app-old"
    old.mkdir()
    os.utime(old, (time.time() - 2e5,) * 2)
    remove_stale(tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "mine",
        "pdflow-app-link",
        "pdflow-app-young",
    ]
