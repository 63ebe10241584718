"""`pdflow app`: open, denoise, compare and download in the browser."""

from __future__ import annotations

from typing import Annotated

from pdflow.cli.browser import NoOpen, serve
from pdflow.cli.options import Device, option
from pdflow.lazy import require

NAME = "app"


def run(
    port: Annotated[
        int, option("--port PORT", "Port to listen on; default: any free one.", min=0, max=65535)
    ] = 0,
    limit: Annotated[
        float, option("--limit MB", "Largest file that can be opened, in MB.", min=1.0)
    ] = 2000.0,
    model: Annotated[
        str, option("--model MODEL", "Name of a shipped model, or a weight file.")
    ] = "pdflow",
    device: Device = None,
    no_open: NoOpen = False,
) -> None:
    """Open, denoise and compare clouds in the browser.

    Drop a file of any format on the page, denoise it, look at both, and download the result in the
    same format. Only this machine can reach the page, at an address that nobody can guess. Files
    stay on this machine, and copies are removed when the app ends with Ctrl-C.
    """
    require("uvicorn", extra="app", purpose="pdflow app")
    require("starlette", extra="app", purpose="pdflow app")
    require("filelock", extra="app", purpose="pdflow app")
    from pdflow.app.server import AppServer, Settings
    from pdflow.app.shelf import temporary_folder

    with temporary_folder() as folder:
        server = AppServer(folder, Settings(int(limit * 1e6), model, device, port))
        serve(server.url, server.run, no_open)
