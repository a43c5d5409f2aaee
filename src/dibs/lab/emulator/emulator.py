"""The emulator as a test holds it: its address, its tokens, its databases, its people, its faults."""

import threading
from collections.abc import Callable, Mapping
from datetime import datetime
from types import TracebackType
from typing import NamedTuple, Self

from dibs.lab.emulator import api, control
from dibs.lab.emulator.clock import Clock
from dibs.lab.emulator.faults import Faults
from dibs.lab.emulator.ids import whole_id
from dibs.lab.emulator.model import ALL_CAPABILITIES, FRESH_CAPABILITIES
from dibs.lab.emulator.people import Human
from dibs.lab.emulator.requests import Requests
from dibs.lab.emulator.server import HOST, Server
from dibs.lab.emulator.wire import Answer, Request, json_answer
from dibs.lab.emulator.workspace import Workspace


class Database(NamedTuple):
    id: str
    data_source_id: str


class Emulator:
    """Serves from the moment it is entered. The same seed makes the same ids, shuffles and accidents."""

    def __init__(self, clock: Callable[[], datetime] | None = None, seed: int = 0, port: int = 0) -> None:
        self._stopping = threading.Event()
        self.clock = Clock(clock)
        self.faults = Faults(seed)
        self._workspace = Workspace(self.clock, self.faults, seed)
        self.human = Human(self._workspace, "Ann")
        self.token = self.bot(ALL_CAPABILITIES, "dibs")
        self._api = api.Api(self._workspace, self.faults, self._stopping, seed)
        self._control = control.Control(self)
        self._server = Server(self._answer, self._stopping, port)

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self._server.port}"

    @property
    def requests(self) -> Requests:
        return self._api.requests

    def start(self) -> None:
        self._server.start()

    def close(self) -> None:
        self._server.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def bot(self, capabilities: frozenset[str] | None = None, name: str = "an integration") -> str:
        """The token of a new integration; unless told otherwise it may not see or write comments."""
        with self._workspace.lock:
            wanted = FRESH_CAPABILITIES if capabilities is None else capabilities
            return str(self._workspace.add_bot(name, wanted).token)

    def database(self, schema: Mapping[str, object], title: str = "Tasks") -> Database:
        """Columns as the API takes them; a relation without a target is one of the database with itself."""
        with self._workspace.lock:
            source = self._workspace.add_source(title, dict(schema), self.human.user, itself=True)
        return Database(source.database_id, source.id)

    def page(self, database_id: str, properties: Mapping[str, object]) -> str:
        """A row made by a person; the value is its id."""
        with self._workspace.lock:
            source = self._workspace.database(whole_id(database_id) or database_id, None)
            return self._workspace.add_page(source, dict(properties), self.human.user).id

    def advance(self, seconds: float) -> datetime:
        """Let time pass. Nobody waits for it."""
        return self.clock.advance(seconds)

    def _answer(self, request: Request) -> Answer | None:
        if request.path.startswith(control.PREFIX):
            return self._control.answer(request)
        if request.path.startswith(api.PREFIX):
            return self._api.answer(request)
        return json_answer(404, {"error": f"nothing here: the API is below {api.PREFIX}, the knobs {control.PREFIX}"})
