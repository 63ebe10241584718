"""The `pdflow` command: one file per subcommand, heavy imports inside the functions."""

from __future__ import annotations

import sys

STOPPED = 130
"""The exit code after Ctrl-C or SIGTERM."""

STOPPED_SENTENCE = "stopped: no unfinished file was left behind."


def start() -> int:
    """Run the command line and return the exit code, even if Ctrl-C comes while it is loaded."""
    try:
        from pdflow.cli.main import main
        from pdflow.cli.stopping import (
            end_after_signals,
            ignore_signals,
            shorten_errors_of_threads,
        )

        end_after_signals()
        shorten_errors_of_threads()
        code = main()
        ignore_signals()
        return code
    except KeyboardInterrupt:
        sys.stderr.write(f"{STOPPED_SENTENCE}\n")
        return STOPPED
