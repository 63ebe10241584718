"""The command line in this process, a headless browser, and skips for what is absent."""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

# Tests run in parallel processes; threads inside them would only fight for the cores.
os.environ.setdefault("OMP_NUM_THREADS", "1")

if not Path("/dev/nvidiactl").exists():
    # Triton reads this when it is first imported, and torch imports it whenever it likes.
    os.environ.setdefault("TRITON_INTERPRET", "1")

SHARED = Path(__file__).resolve().parents[2] / "shared"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip, with a reason, what needs data, weights, a GPU or a browser that is not here."""
    for item in items:
        if "data" in item.keywords and not (SHARED / "data").is_dir():
            item.add_marker(pytest.mark.skip(reason="no benchmark data at ../shared/data"))
        if "reference" in item.keywords and not (SHARED / "reference").is_dir():
            item.add_marker(pytest.mark.skip(reason="no authors' weights at ../shared/reference"))
        if "gpu" in item.keywords:
            import torch

            if not torch.cuda.is_available():
                item.add_marker(pytest.mark.skip(reason="no CUDA device"))


@pytest.fixture
def shared() -> Path:
    """The folder with benchmark data and reference weights."""
    return SHARED


@dataclass
class Outcome:
    """What a command came to."""

    code: int
    out: str
    err: str


@pytest.fixture
def pdflow(capsys: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    """Call with the words of a command line."""

    def call(*words: str | Path) -> Outcome:
        from pdflow.cli.main import main

        capsys.readouterr()
        code = main([str(word) for word in words])
        return Outcome(code, *capsys.readouterr())

    return call


CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-features=IsolateSandboxedIframes",  # so that one session sees frames, too
    "--remote-debugging-pipe",
    "--no-first-run",
    "--use-gl=angle",
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--window-size=1000,700",
    "--force-color-profile=srgb",
)
# The browser reads commands from descriptor 3 and answers on 4.
LAUNCH = """
import os, sys
to_read, to_write = (os.dup2(int(word), 10 + k) for k, word in enumerate(sys.argv[1:3]))
os.dup2(to_read, 3), os.dup2(to_write, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
UNNAMED = """
[...document.querySelectorAll("input, select, button, a, canvas, iframe, [role=slider]")]
  .filter((e) => !e.hidden)
  .filter((e) => e.tabIndex < 0 || !(e.getAttribute("aria-label") || e.title
          || e.labels?.[0]?.textContent.trim() || e.textContent.trim()))
  .map((e) => e.outerHTML)
"""
PATIENCE = 60.0


class Browser:
    """A headless Chromium with one tab, driven through its own protocol over two pipes.

    Every request that it makes and every complaint of its console is recorded."""

    def __init__(self, profile: Path) -> None:
        to_read, self._write = os.pipe()
        self._read, to_write = os.pipe()
        pipes = [str(to_read), str(to_write)]
        flags = [*FLAGS, f"--user-data-dir={profile}"]
        words = [sys.executable, "-c", LAUNCH, *pipes, str(CHROMIUM), *flags]
        self._process = subprocess.Popen(
            words, pass_fds=(to_read, to_write), stderr=subprocess.DEVNULL
        )
        os.close(to_read)
        os.close(to_write)
        self._number, self._rest = 0, b""
        self._session: str | None = None
        self._contexts: list[int] = []
        self.requests: list[str] = []
        self.complaints: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")
        # Without it, a key that is pressed right after loading may reach no page.
        self.call("Emulation.setFocusEmulationEnabled", enabled=True)

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(PATIENCE)
        os.close(self._read)
        os.close(self._write)

    def call(self, method: str, **parameters: Any) -> Any:
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            answer = self._receive(end)
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return answer["result"]
            self._note(answer)
        raise TimeoutError(method)

    def open(self, url: str) -> None:
        """Load a page and wait until it is ready, or says why it is not."""
        self.requests.clear()
        self.complaints.clear()
        self.call("Page.navigate", url="about:blank")
        self.call("Page.navigate", url=url)
        self.wait("document.documentElement?.dataset.ready === 'yes'")

    def evaluate(self, expression: str, inside: bool = False) -> Any:
        """The value of a JavaScript expression, awaited if it is a promise.

        inside  evaluate it in the frame that was loaded last
        """
        where = {"contextId": self._contexts[-1]} if inside else {}
        answer = self.call(
            "Runtime.evaluate",
            expression=expression,
            returnByValue=True,
            awaitPromise=True,
            **where,
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def contrast(self, theme: str, *pairs: tuple[str, str]) -> float:
        """The smallest contrast (WCAG 2) of pairs of colours, such as --ink and --sheet."""
        self.evaluate(f"document.documentElement.dataset.theme = '{theme}'")
        return min(
            (max(a, b) + 0.05) / (min(a, b) + 0.05)
            for a, b in (map(self._luminance, pair) for pair in pairs)
        )

    def _luminance(self, name: str) -> float:
        style = "getComputedStyle(document.documentElement)"
        words = self.evaluate(f"{style}.getPropertyValue('{name}').trim().slice(1)")
        levels = [int(words[k : k + 2], 16) / 255 for k in (0, 2, 4)]
        linear = [v / 12.92 if v <= 0.03928 else ((v + 0.055) / 1.055) ** 2.4 for v in levels]
        return sum(w * v for w, v in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    def unnamed_controls(self) -> list[str]:
        """Controls without a name for screen readers, or out of the reach of the Tab key."""
        return list(self.evaluate(UNNAMED))

    def settled(self) -> str:
        """The address after the camera came to rest."""
        self.wait("document.getElementById('view').ariaBusy !== 'true'")
        return str(self.evaluate("location.href"))

    def wait(self, condition: str, inside: bool = False) -> None:
        end = time.monotonic() + PATIENCE
        while not self.evaluate(condition, inside):
            assert time.monotonic() < end, (condition, self.complaints)
            time.sleep(0.05)

    def press(self, key: str, **more: Any) -> None:
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, **more)

    def click(self, x: float, y: float, clickCount: int = 1) -> None:
        for kind in ("mousePressed", "mouseReleased"):
            self.mouse(kind, x, y, clickCount=clickCount)

    def drag(self, start: tuple[float, float], end: tuple[float, float], **more: Any) -> None:
        middle = [(a + b) / 2 for a, b in zip(start, end, strict=True)]
        self.mouse("mousePressed", *start, clickCount=1, **more)
        self.mouse("mouseMoved", *middle, **more)
        self.mouse("mouseMoved", *end, **more)
        self.mouse("mouseReleased", *end, clickCount=1, **more)

    def mouse(self, kind: str, x: float, y: float, **more: Any) -> None:
        button = {} if kind == "mouseWheel" else {"button": "left", "buttons": 1}
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **button, **more)

    def touch(self, steps: Sequence[Sequence[tuple[float, float]]]) -> None:
        """Put fingers down, move them from step to step, and lift them."""
        for number, places in enumerate(steps):
            points = [{"x": x, "y": y, "id": k} for k, (x, y) in enumerate(places)]
            kind = "touchMove" if number else "touchStart"
            self.call("Input.dispatchTouchEvent", type=kind, touchPoints=points)
        self.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])

    def _receive(self, end: float) -> dict[str, Any]:
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._read], [], [], max(0.0, end - time.monotonic()))
            chunk = os.read(self._read, 1 << 20) if ready else b""
            if not chunk:
                raise TimeoutError("The browser does not answer.")
            self._rest += chunk
        message, _, self._rest = self._rest.partition(b"\0")
        return dict(json.loads(message))

    def _note(self, event: dict[str, Any]) -> None:
        details = event.get("params", {})
        if event.get("method") == "Network.requestWillBeSent":
            self.requests.append(details["request"]["url"])
        elif event.get("method") == "Runtime.executionContextCreated":
            self._contexts.append(details["context"]["id"])
        elif event.get("method") == "Log.entryAdded":
            self.complaints.append(details["entry"]["text"])
        elif event.get("method") == "Runtime.exceptionThrown":
            self.complaints.append(str(details["exceptionDetails"]))


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """One browser for all tests of this process."""
    if CHROMIUM is None:
        pytest.skip("no Chromium")
    browser = Browser(tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


@pytest.fixture
def small_model() -> Any:
    """A network with random weights: it moves points, though not well."""
    import torch

    from pdflow.config import FlowConfig, InferenceConfig
    from pdflow.model import PDFlow

    torch.manual_seed(0)
    config = FlowConfig(
        edge_neighbours=(0,), augment_dims=5, hidden=8, filter="fbm", condition="graph",
        condition_neighbours=8, condition_hidden=8, condition_features=8, augment_flow="affine",
        patch_points=100, noise_conditioning=True, noise_unit=4.0,
    )  # fmt: skip
    return PDFlow(config, InferenceConfig(patch_radius=(4.0, 4.0), centred=True)).eval()
