"""SIGTERM and Ctrl-C end a process soon, wherever it is."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import pdflow
from pdflow.cli import stopping

SOURCE = Path(pdflow.__file__).parents[1]

# Stands for a compiled loop: it neither ends for minutes nor lets Python handle a signal.
BUSY = """
import hashlib, signal, sys
from pathlib import Path
from pdflow.cli import info, start
from pdflow.io import atomic_path

def never_ends(paths):
    with atomic_path(Path(paths[0])) as temporary:
        temporary.write_text("half")
        print("busy", flush=True)
        hashlib.pbkdf2_hmac("sha256", b"a", b"b", 2**31 - 1)

# A process in the background of a script inherits that SIGINT is ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
info.expand_inputs = never_ends
sys.exit(start())
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_process_in_a_long_loop_ends_and_leaves_no_file(tmp_path: Path, number: int) -> None:
    command = [sys.executable, "-c", BUSY, "info", str(tmp_path / "out.ply")]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "busy\n"
        assert len(list(tmp_path.iterdir())) == 1
        process.send_signal(number)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert said == "stopped: no unfinished file was left behind.\n"
    assert not list(tmp_path.iterdir())


CONSOLE_SCRIPT = "import sys; from pdflow.cli import start; sys.exit(start())"


@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX: signals")
@pytest.mark.parametrize("command", [["-m", "pdflow"], ["-c", CONSOLE_SCRIPT]])
@pytest.mark.parametrize("milliseconds", [0, 20, 50, 100, 300])
def test_ctrl_c_while_a_command_is_loaded_shows_no_traceback_of_ours(
    command: list[str], milliseconds: int, tmp_path: Path
) -> None:
    with subprocess.Popen(
        [sys.executable, *command, "info", str(tmp_path / "none.ply")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    ) as process:
        time.sleep(milliseconds / 1000)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    # Done, stopped by a command, or stopped while Python itself starts, which shows a traceback.
    assert process.returncode in (2, 130, 1, -signal.SIGINT)
    if process.returncode in (2, 130):
        # Python ignores an interrupt in a callback of its importer, says so, and goes on.
        said = re.sub(
            r"Exception ignored in: <function _get_module_lock.*?Interrupt: \n",
            "",
            said,
            flags=re.S,
        )
        assert len(said.splitlines()) == 1, said
    else:
        assert not re.search(r"pdflow/cli/(?!__init__)", said), said


def test_next_to_nothing_is_loaded_before_ctrl_c_is_handled() -> None:
    code = f"import sys; sys.path.insert(0, {str(SOURCE)!r}); before = {{*sys.modules}}; "
    code += "import pdflow.cli; print(*{*sys.modules} - before)"
    done = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True)
    loaded = set(done.stdout.split())
    assert "pdflow.cli" in loaded, done.stderr
    assert not loaded & {"typing", "collections", "re", "enum", "json", "pathlib", "signal"}


def test_an_error_in_a_thread_of_a_library_is_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threading, "excepthook", threading.excepthook)
    monkeypatch.setattr(sys, "argv", ["pdflow", "train"])
    stopping.shorten_errors_of_threads()
    thread = threading.Thread(target=lambda: (_ for _ in ()).throw(OSError(28, "No space")))
    thread.start()
    thread.join()
    (line,) = capsys.readouterr().err.splitlines()
    assert line == "warning: something in the background failed (OSError: [Errno 28] No space)."
