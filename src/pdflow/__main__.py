"""`python -m pdflow`: the same as the command `pdflow`."""

from __future__ import annotations

import sys

from pdflow.cli import start

if __name__ == "__main__":
    sys.exit(start())
