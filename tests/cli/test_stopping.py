"""SIGTERM and Ctrl-C end a process soon, wherever it is."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

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
