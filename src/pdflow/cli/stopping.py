"""End a process soon after SIGTERM or Ctrl-C, even inside a long compiled loop.

Python runs a signal handler in the main thread, between two of its own instructions. While that
thread is inside compiled code nothing happens, and a search tree of many points takes a minute. So
a second thread waits for the signal, too, and ends the process if the first has not by then.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time

from pdflow.cli import STOPPED, STOPPED_SENTENCE

PATIENCE = 1.0
"""Seconds that a command has to end by itself."""


def end_after_signals() -> None:
    """Watch for signals from now on; for a process that runs one command."""
    heard, written = socket.socketpair()
    written.setblocking(False)
    signal.set_wakeup_fd(written.fileno(), warn_on_full_buffer=False)
    threading.Thread(target=_watch, args=(heard, written), daemon=True).start()


def shorten_errors_of_threads() -> None:
    """Let an error in a thread of a library be one line; errors of our own threads are raised."""
    if "--debug" not in sys.argv:
        threading.excepthook = _say_thread_ended


def _say_thread_ended(what: threading.ExceptHookArgs) -> None:
    error = " ".join(f"{what.exc_type.__name__}: {what.exc_value}".split())
    sys.stderr.write(f"warning: something in the background failed ({error}).\n")


def ignore_signals() -> None:
    """Let a process end that has done its work: Ctrl-C now would only disturb Python's tidying."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)


def _watch(heard: socket.socket, written: socket.socket) -> None:
    while number := heard.recv(1)[0]:
        # A command with a handler of its own, such as training, saves its work first.
        handler = signal.getsignal(number)
        if number in (signal.SIGTERM, signal.SIGINT) and _ends_commands(handler):
            break
    time.sleep(PATIENCE)
    atomic = sys.modules.get("pdflow.io.atomic")
    if atomic is not None:
        atomic.discard_unfinished()
    sys.stderr.write(f"{STOPPED_SENTENCE}\n")
    sys.stderr.flush()
    written.close()
    os._exit(STOPPED)


def _ends_commands(handler: object) -> bool:
    """Whether a signal's handler is the one that every command begins with."""
    return handler is signal.default_int_handler or getattr(handler, "ends_commands", False)
