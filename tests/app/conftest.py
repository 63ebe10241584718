"""The app as a process of its own, with its temporary files in a folder that a test can look at."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

pytest.importorskip("starlette", reason="no extra app")
pytest.importorskip("uvicorn", reason="no extra app")

LIMIT_MB = 1
QUICK = ("--model", "pdflow-fast")
PATIENCE = 120.0

# A process in the background of a script inherits that SIGINT is ignored.
CODE = (
    "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "from pdflow.cli.main import main; sys.exit(main(sys.argv[1:]))"
)


class App:
    """A running `pdflow app`, and a client that knows its token.

    folder  where its temporary files are
    keys    of all clouds that were opened
    """

    keys: list[str]

    def __init__(self, folder: Path, *words: str) -> None:
        self.folder, self.keys = folder, []
        own = ["--no-open", f"--limit={LIMIT_MB}", *QUICK]
        line = [sys.executable, "-u", "-c", CODE, "app", *own, *words]
        self.process = subprocess.Popen(
            line,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "TMPDIR": str(folder)},
        )
        assert self.process.stdout is not None
        first = self.process.stdout.readline()
        assert first, self.process.communicate()[1]
        self.url = first.split()[0]
        parts = urlsplit(self.url)
        self.host, self.port, self.prefix = parts.netloc, parts.port, parts.path

    def request(
        self, method: str, path: str, body: bytes | None = None, **headers: str
    ) -> tuple[HTTPResponse, bytes]:
        """Send a request as the page would; headers may replace its own."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        own = {"Host": self.host, "Origin": f"http://{self.host}"}
        try:
            connection.request(method, self.prefix + path, body, {**own, **headers})
            response = connection.getresponse()
            answer = response.read()
            if response.status == 201:
                self.keys.append(json.loads(answer)["key"])
            return response, answer
        finally:
            connection.close()

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """The JSON of an answer that is a success."""
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        response, answer = self.request(method, path, data)
        assert response.status < 300, answer
        return json.loads(answer) if answer else None

    def open(self, path: Path) -> str:
        """Upload a file and wait until it is open."""
        key = self.ask("POST", f"clouds?name={path.name}", path.read_bytes())["key"]
        self.wait(key)
        return str(key)

    def wait(self, key: str) -> Any:
        """The state of a cloud when nothing happens to it any more."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            state = self.ask("GET", f"clouds/{key}")
            if state["state"] in ("ready", "failed"):
                return state
            time.sleep(0.05)
        raise TimeoutError(state)

    def files(self) -> list[Path]:
        """All files that the app holds."""
        return [p for p in self.folder.rglob("*") if p.is_file() and p.name != "lock"]

    def workers(self) -> list[int]:
        """Process ids of its workers; needs /proc."""
        pid = self.process.pid
        listed = Path(f"/proc/{pid}/task/{pid}/children").read_text()
        return [int(word) for word in listed.split()]

    def forget_all(self) -> None:
        """Close every cloud; no file may be left."""
        for key in self.keys:
            self.request("DELETE", f"clouds/{key}")
        self.keys.clear()
        end = time.monotonic() + PATIENCE
        while self.files() and time.monotonic() < end:  # a client that vanished is noticed later
            time.sleep(0.05)
        assert self.files() == []

    def end(self) -> tuple[int, str]:
        """Ctrl-C; the exit code and what was said."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        return self.process.wait(PATIENCE), self.process.communicate()[1]


@pytest.fixture
def quick() -> tuple[str, str]:
    """The words of a command line that choose the network of the app."""
    return QUICK


@pytest.fixture
def app_class() -> type[App]:
    return App


@pytest.fixture(scope="session")
def running_app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    """One app for all tests of this process; afterwards nothing of it is left."""
    running = App(tmp_path_factory.mktemp("app"))
    yield running
    code, said = running.end()
    assert (code, said.strip()) == (0, "ended.")
    assert list(running.folder.iterdir()) == []


@pytest.fixture
def app(running_app: App) -> Iterator[App]:
    """The app without clouds."""
    yield running_app
    running_app.forget_all()


@pytest.fixture
def scan(tmp_path: Path) -> Path:
    """A noisy plane of 600 points with everything that a LAS file can hold."""
    import numpy as np

    from pdflow import PointCloud, write

    random = np.random.default_rng(0)
    points = random.random((600, 3)) * [1, 1, 0] + 0.01 * random.normal(size=(600, 3))
    attributes = {
        "intensity": random.integers(0, 60_000, 600).astype(np.uint16),
        "classification": random.integers(2, 7, 600).astype(np.uint8),
    }
    path = tmp_path / "scan.las"
    write(path, PointCloud(points + np.array([500_000, 5_000_000, 100]), attributes))
    return path
