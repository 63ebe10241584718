"""What every request must pass: the right Host, the token in the path, no foreign Origin.

Other programs of this machine, and pages of other sites in the user's browser, can reach the port
as well. They do not know the token. A name that somebody points at 127.0.0.1 (DNS rebinding) has
another Host, and a page of another site has another Origin.
"""

from __future__ import annotations

import asyncio
import secrets

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
"""On every answer that does not set them itself."""

STALL = 60.0
"""Seconds that a client may take for the next part of an answer."""

_READING = ("GET", "HEAD")


class Gate:
    """Middleware around the app, which sees paths without the token.

    host   address and port, as the browser writes them
    token  first part of every path
    """

    def __init__(self, app: ASGIApp, host: str, token: str) -> None:
        self._app, self._host, self._prefix = app, host, f"/{token}/"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close"})
            return

        async def send_safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            # A client that asks and never reads must not hold its connection for ever.
            await asyncio.wait_for(send(message), STALL)

        refusal = self._refusal(scope["method"], scope["path"], Headers(scope=scope))
        if refusal is not None:
            await refusal(scope, receive, send_safely)
            return
        inner = scope["path"][len(self._prefix) - 1 :]
        await self._app({**scope, "path": inner, "raw_path": b""}, receive, send_safely)

    def _refusal(self, method: str, path: str, headers: Headers) -> PlainTextResponse | None:
        begin = path[: len(self._prefix)]
        knows_token = secrets.compare_digest(begin.encode(), self._prefix.encode())
        if headers.get("host") != self._host or not knows_token:
            return PlainTextResponse("Not found.", 404, {"Connection": "close"})
        origin, site = headers.get("origin"), headers.get("sec-fetch-site", "none")
        is_own = origin == f"http://{self._host}" or (origin is None and method in _READING)
        if not is_own or site not in ("same-origin", "none"):
            return PlainTextResponse("Another site sent this.", 403, {"Connection": "close"})
        return None
