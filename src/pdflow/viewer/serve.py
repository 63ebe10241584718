"""A page for the browser on this machine: 127.0.0.1, a free port, a random token in the path."""

from __future__ import annotations

import secrets
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from pdflow.viewer.document import DATA_NAME, document
from pdflow.viewer.show import Page

_ADDRESS = "127.0.0.1"
_HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class PageServer(ThreadingHTTPServer):
    """Answers two addresses, the page and its data, and refuses everything else."""

    daemon_threads = True

    def __init__(self, page: Page) -> None:
        super().__init__((_ADDRESS, 0), _Handler)
        prefix = f"/{secrets.token_urlsafe(16)}/"
        self.host = f"{_ADDRESS}:{self.server_port}"
        self.url = f"http://{self.host}{prefix}"
        self.answers = {
            prefix: ("text/html; charset=utf-8", document(page.title, None).encode()),
            prefix + DATA_NAME: ("application/octet-stream", page.data),
        }


class _Handler(BaseHTTPRequestHandler):
    server: PageServer

    def do_GET(self) -> None:
        """Send the page or its data.

        A foreign Host means that a name of someone else's was pointed at this machine.
        """
        answer = self.server.answers.get(self.path)
        if self.headers.get("Host") != self.server.host or answer is None:
            self.send_error(404)
            return
        kind, body = answer
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: requests are no news on a terminal."""
