"""The process that opens and denoises files; `python -m pdflow.app.worker`.

One line of JSON on standard input is a task. Answers are lines of JSON on standard output: any
number of {"step", "share"}, then {"done", "warnings"} or {"error"}. JSON and not pickle, because a
worker that a crafted file has taken over must not be able to run code in the server.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import threading
import time
import traceback
import warnings
from pathlib import Path
from typing import Any, TextIO

from pdflow.errors import LossWarning, PdflowError

LONGEST_SENTENCE = 1000
"""Characters of an error: it may quote a damaged file."""

_PERIOD = 0.1  # seconds between two reports of progress


def main() -> None:
    """Work on tasks until standard input ends, which it also does when the server dies."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server, which ends this one
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # libraries may print what they like
    tasks: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(tasks,), daemon=True).start()
    while True:
        _answer(json.loads(tasks.get()), answers)


def _listen(tasks: queue.SimpleQueue[str]) -> None:
    """Pass tasks on; end the process at once when nobody is left to send any."""
    for line in sys.stdin:
        tasks.put(line)
    os._exit(0)


def _answer(words: dict[str, Any], answers: TextIO) -> None:
    said = -_PERIOD

    def send(**answer: Any) -> None:
        answers.write(json.dumps(answer, allow_nan=False) + "\n")
        answers.flush()

    def report(step: str, share: float) -> None:
        nonlocal said
        if share in (0.0, 1.0) or time.monotonic() - said >= _PERIOD:
            said = time.monotonic()
            send(step=step, share=share)

    from pdflow.app.tasks import Task, run_task

    words |= {"source": Path(words["source"]), "folder": Path(words["folder"])}
    task = Task(**words)
    names = {str(task.source): task.name, str(task.result): task.result_name}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", LossWarning)
        try:
            done = run_task(task, report)
        except Exception as error:
            send(error=_sentence(error, names))
            return
    losses = [_named(str(w.message), names) for w in caught if issubclass(w.category, LossWarning)]
    send(done=done, warnings=list(dict.fromkeys(losses)))


def _sentence(error: Exception, names: dict[str, str]) -> str:
    """What the command line would say, with the user's name of the file."""
    if isinstance(error, PdflowError):
        return _named(str(error), names)
    if isinstance(error, MemoryError):
        return "This needs more memory than there is."
    traceback.print_exc()
    return _named(f"{type(error).__name__}: {error}; this is a bug in pdflow: report it.", names)


def _named(sentence: str, names: dict[str, str]) -> str:
    for path, name in names.items():
        sentence = sentence.replace(path, name)
    return " ".join(sentence.split())[:LONGEST_SENTENCE]


if __name__ == "__main__":
    main()
