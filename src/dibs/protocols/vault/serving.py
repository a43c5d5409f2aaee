"""GET /health, over HTTP, from a thread of its own."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

from dibs.core.errors import InvalidInput
from dibs.protocols.vault.health import ERROR

if TYPE_CHECKING:
    from collections.abc import Callable

    from dibs.core.task import Json

_PATIENCE = 5.0  # seconds for a request to come in


class HealthServer:
    """Answers until it is closed. Only this machine is served, unless told otherwise."""

    def __init__(self, host: str, port: int, report: Callable[[], dict[str, Json]]) -> None:
        handler = type("Handler", (_Handler,), {"report": staticmethod(report)})
        try:
            self._server = ThreadingHTTPServer((host, port), handler)
        except (OSError, OverflowError) as error:
            why = getattr(error, "strerror", None) or str(error)
            raise InvalidInput(f"Health cannot be served on {host}:{port}: {why}. Choose another port.") from None
        self._server.daemon_threads = True
        self.address = f"http://{host}:{self._server.server_address[1]}/health"
        threading.Thread(target=self._server.serve_forever, args=(0.5,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    timeout = _PATIENCE
    report: Callable[[], dict[str, Json]]

    def do_GET(self) -> None:
        if self.path.partition("?")[0] != "/health":
            self._answer(404, {"error": "there is only /health"})
            return
        told = self.report()
        self._answer(503 if told["status"] == ERROR else 200, told)

    do_HEAD = do_GET  # noqa: N815 - the name it has

    def _answer(self, status: int, document: dict[str, Json]) -> None:
        body = f"{json.dumps(document, ensure_ascii=False)}\n".encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def version_string(self) -> str:
        return "dibs"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name it has
        """Being asked is nothing to write down."""
