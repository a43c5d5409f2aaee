"""A server on this machine that plays an OpenAI-compatible endpoint, as well or as badly as a test wants it to."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Answer = Callable[["Asked"], "Told"]


class Asked(NamedTuple):
    path: str
    headers: dict[str, str]
    body: Any


class Told(NamedTuple):
    """`pause` is waited for before the first byte, `drip` between one byte and the next."""

    body: object = b""
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    pause: float = 0.0
    drip: float = 0.0


class Endpoint:
    """Gives its answers in order, and repeats the last one. `asked` are the requests."""

    def __init__(self, url: str, stopping: threading.Event) -> None:
        self.url = url
        self.asked: list[Asked] = []
        self.answers: list[Answer] = []
        self.stopping = stopping

    def next_answer(self, asked: Asked) -> Told:
        self.asked.append(asked)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return answer(asked)


@contextmanager
def endpoint(*answers: Answer) -> Iterator[Endpoint]:
    stopping = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers["Content-Length"]))
            told = played.next_answer(Asked(self.path, dict(self.headers), json.loads(raw)))
            if told.pause:
                stopping.wait(told.pause)
            try:
                self._tell(told)
            except (BrokenPipeError, ConnectionResetError):
                self.close_connection = True

        def _tell(self, told: Told) -> None:
            body = told.body if isinstance(told.body, bytes) else json.dumps(told.body).encode()
            self.send_response(told.status)
            for name, value in (*told.headers, ("Content-Length", str(len(body)))):
                self.send_header(name, value)
            self.end_headers()
            for at in range(0, len(body), 1 if told.drip else len(body) or 1):
                self.wfile.write(body[at : at + 1] if told.drip else body)
                if told.drip and stopping.wait(told.drip):
                    return

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name it has
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    played = Endpoint(f"http://127.0.0.1:{server.server_port}/v1", stopping)
    played.answers = list(answers)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield played
    finally:
        stopping.set()
        server.shutdown()
        server.server_close()
        thread.join()
