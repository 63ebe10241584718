"""The server: which addresses there are, and what they answer.

Every address lies behind the token (see `gate`). Files come as the plain body of a request, so
there are no forms to parse.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import shutil
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from pdflow.app.gate import Gate
from pdflow.app.jobs import Jobs, Worker
from pdflow.app.protocol import PatientProtocol
from pdflow.app.refusal import Refusal
from pdflow.app.shelf import PAGE, RESULT, SCENE, HeldCloud, Shelf
from pdflow.app.uploads import announced_size, receive_file, small_body
from pdflow.errors import PdflowError
from pdflow.io.registry import FORMATS
from pdflow.viewer.document import DATA_NAME, assemble, document

ADDRESS = "127.0.0.1"
EXAMPLE = "gear_noisy.ply"
OPTIONS = ("mode", "iterations", "noise", "outliers")
"""Options of a `Denoiser` that the page may set."""

_LONGEST_OPTIONS = 2000
_MOST_CONNECTIONS = 600
# Pages carry the rest of their policy inside, with the hashes of their script and style.
_UNFRAMED = {"Content-Security-Policy": "frame-ancestors 'none'"}
_FRAMED = {
    "Content-Security-Policy": "frame-ancestors 'self'",
    "X-Frame-Options": "SAMEORIGIN",
}


@dataclass(frozen=True)
class Settings:
    """What the command line decides.

    limit   bytes of an upload
    model   a shipped name or a weight file
    device  None means the best there is
    port    0 means any free one
    """

    limit: int
    model: str = "pdflow"
    device: str | None = None
    port: int = 0


class AppServer:
    """The app on a port of this machine; `url` opens it.

    folder  for temporary files; whoever made it removes it
    """

    def __init__(self, folder: Path, settings: Settings) -> None:
        self._settings = settings
        self._shelf = Shelf(folder, most_bytes=4 * settings.limit)
        self._jobs = Jobs(Worker())
        self._socket = _bind(settings.port)
        host = f"{ADDRESS}:{self._socket.getsockname()[1]}"
        token = secrets.token_urlsafe(24)
        self.url = f"http://{host}/{token}/"
        cloud = "/clouds/{key}"
        routes = [
            Route("/", self._page),
            Route("/clouds", self._upload, methods=["POST"]),
            Route("/example", self._example, methods=["POST"]),
            Route(cloud, self._state),
            Route(cloud, self._remove, methods=["DELETE"]),
            Route(f"{cloud}/denoise", self._denoise, methods=["POST"]),
            Route(f"{cloud}/cancel", self._cancel, methods=["POST"]),
            Route(f"{cloud}/view/{{version:int}}/", self._view),
            Route(f"{cloud}/view/{{version:int}}/{DATA_NAME}", self._scene),
            Route(f"{cloud}/result", self._result),
            Route(f"{cloud}/page", self._saved_page),
        ]
        handlers: dict[Any, Any] = {Refusal: _refuse, HTTPException: _miss, Exception: _fail}
        inner = Starlette(routes=routes, exception_handlers=handlers, lifespan=self._lifespan)
        self._app = Gate(inner, host, token)

    def run(self) -> None:
        """Answer until Ctrl-C or SIGTERM."""
        config = uvicorn.Config(
            self._app,
            http=PatientProtocol,
            ws="none",
            lifespan="on",
            log_config=None,
            log_level="critical",
            access_log=False,
            server_header=False,
            limit_concurrency=_MOST_CONNECTIONS,
            timeout_graceful_shutdown=1,
        )
        uvicorn.Server(config).run(sockets=[self._socket])

    @asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        serving = asyncio.create_task(self._jobs.serve())
        try:
            yield
        finally:
            serving.cancel()
            with suppress(asyncio.CancelledError):
                await serving

    async def _page(self, request: Request) -> Response:
        suffixes = [suffix for fmt in FORMATS if fmt.points for suffix in fmt.suffixes]
        settings = json.dumps({"limit": self._settings.limit, "suffixes": suffixes})
        return HTMLResponse(_app_page(settings), headers=_UNFRAMED)

    async def _upload(self, request: Request) -> Response:
        size = announced_size(request, self._settings.limit)
        name, drop = request.query_params.get("name", ""), request.query_params.get("drop")
        cloud = self._shelf.add(name, size, drop == "1")
        return await self._open(cloud, receive_file(request, cloud))

    async def _example(self, request: Request) -> Response:
        path = example_path()
        cloud = self._shelf.add(EXAMPLE, path.stat().st_size, drop=False)
        return await self._open(cloud, asyncio.to_thread(shutil.copyfile, path, cloud.source))

    async def _open(self, cloud: HeldCloud, arrival: Any) -> Response:
        try:
            await arrival
            self._jobs.submit(cloud, "open")
        except BaseException:  # a client that vanished, too: nothing of it may stay
            self._shelf.remove(cloud)
            raise
        return JSONResponse({"key": cloud.key}, 201)

    async def _state(self, request: Request) -> Response:
        return self._describe(self._cloud(request))

    async def _denoise(self, request: Request) -> Response:
        cloud = self._cloud(request)
        options = _read_options(await small_body(request, _LONGEST_OPTIONS))
        if cloud.facts is None:
            raise Refusal(409, f"{cloud.name} is not open yet: wait until it is shown.")
        places = {"model": self._settings.model, "device": self._settings.device}
        self._jobs.submit(cloud, "denoise", {**options, **places})
        return self._describe(cloud, 202)

    async def _cancel(self, request: Request) -> Response:
        cloud = self._cloud(request)
        await self._jobs.cancel(cloud)
        return self._describe(cloud)

    async def _remove(self, request: Request) -> Response:
        cloud = self._cloud(request)
        await self._jobs.cancel(cloud)
        self._shelf.remove(cloud)
        return Response(status_code=204)

    async def _view(self, request: Request) -> Response:
        cloud = self._cloud(request)
        return HTMLResponse(document(cloud.name, None), headers=_FRAMED)

    async def _scene(self, request: Request) -> Response:
        return _file(self._cloud(request), SCENE)

    async def _result(self, request: Request) -> Response:
        cloud = self._cloud(request)
        return _file(cloud, f"{RESULT}{cloud.source.suffix}", cloud.result_name)

    async def _saved_page(self, request: Request) -> Response:
        cloud = self._cloud(request)
        return _file(cloud, PAGE, f"{Path(cloud.result_name).stem}.html")

    def _cloud(self, request: Request) -> HeldCloud:
        return self._shelf.get(request.path_params["key"])

    def _describe(self, cloud: HeldCloud, status: int = 200) -> Response:
        state = {
            "name": cloud.name,
            "state": cloud.state,
            "step": cloud.step,
            "share": cloud.share,
            "ahead": self._jobs.ahead(cloud),
            "error": cloud.error,
            "warnings": cloud.warnings,
            "facts": cloud.facts,
            "result": cloud.result,
            "resultName": cloud.result_name,
            "version": cloud.version,
        }
        return JSONResponse(state, status)


def example_path() -> Path:
    """The shipped example: inside an installed package, or in the checkout."""
    inside = Path(str(resources.files(__package__))) / EXAMPLE
    return inside if inside.exists() else Path(__file__).parents[3] / "examples" / EXAMPLE


def _bind(port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.bind((ADDRESS, port))
        listener.listen()  # a browser that comes before the server is ready waits
    except (OSError, OverflowError) as error:
        listener.close()
        why = getattr(error, "strerror", None) or error
        raise PdflowError(
            f"Port {port} cannot be used ({why}): choose another, or leave it out."
        ) from error
    return listener


def _app_page(settings: str) -> str:
    return assemble(str(__package__), "pdflow", settings, requests="'self'", frames="'self'")


def _read_options(body: bytes) -> dict[str, Any]:
    """Options from the page; their values are checked by the `Denoiser`."""
    try:
        options = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Refusal(400, "The options cannot be read.") from error
    if not isinstance(options, dict) or not options.keys() <= {*OPTIONS}:
        raise Refusal(400, f"The options are not known: give some of {', '.join(OPTIONS)}.")
    for name, value in options.items():
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise Refusal(400, f"{name} must be a text or a number.")
    return options


def _file(cloud: HeldCloud, name: str, download_name: str | None = None) -> Response:
    path = None if cloud.shown is None else cloud.shown / name
    if path is None or not path.exists():
        raise Refusal(404, f"{cloud.name} has no such file yet: denoise it first.")
    return FileResponse(path, filename=download_name, media_type="application/octet-stream")


async def _refuse(request: Request, refusal: Refusal) -> Response:
    return JSONResponse({"error": refusal.sentence}, refusal.status, {"Connection": "close"})


async def _miss(request: Request, error: HTTPException) -> Response:
    return JSONResponse({"error": "There is nothing here."}, error.status_code)


async def _fail(request: Request, error: Exception) -> Response:
    if isinstance(error, ClientDisconnect):
        return Response(status_code=400)
    what = f"{type(error).__name__}: {error}; this is a bug in pdflow: report it."
    return JSONResponse({"error": what}, 500)
