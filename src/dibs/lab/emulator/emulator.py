"""The emulator as a test uses it, and `/_emulator/…`, the same for other processes and languages."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from dibs.lab.emulator import api
from dibs.lab.emulator.errors import ApiError
from dibs.lab.emulator.faults import Faults
from dibs.lab.emulator.model import ALL_CAPABILITIES, FRESH_CAPABILITIES, Clock, whole_id
from dibs.lab.emulator.presets import preset
from dibs.lab.emulator.server import HOST, Answer, Request, Server, json_answer
from dibs.lab.emulator.workspace import Human, Workspace

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime
    from types import TracebackType

    from dibs.lab.emulator.api import Requests


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
        self._control = Control(self)
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
        if request.path.startswith(CONTROL_PREFIX):
            return self._control.answer(request)
        if request.path.startswith(api.PREFIX):
            return self._api.answer(request)
        return json_answer(404, {"error": f"nothing here: the API is below {api.PREFIX}, the knobs {CONTROL_PREFIX}"})


CONTROL_PREFIX = "/_emulator/"


class Control:
    """Serves `/_emulator/…`."""

    def __init__(self, emulator: Emulator) -> None:
        self._emulator = emulator
        self._verbs: dict[str, Callable[[dict[str, Any]], Any]] = {
            "POST clock": self._clock,
            "POST bot": self._bot,
            "POST database": self._database,
            "POST page": self._page,
            "POST human/edit": lambda said: emulator.human.edit(said["page_id"], said["properties"]),
            "POST human/trash": lambda said: emulator.human.trash(said["page_id"]),
            "POST human/restore": lambda said: emulator.human.restore(said["page_id"]),
            "POST human/comment": lambda said: {"id": emulator.human.comment(said["page_id"], said["text"])},
            "POST human/unshare": lambda said: emulator.human.unshare(said["id"], said.get("token")),
            "POST human/share": lambda said: emulator.human.share(said["id"]),
            "POST human/columns": lambda said: emulator.human.change_columns(said["database_id"], said["properties"]),
            "POST faults": emulator.faults.set,
            "POST faults/next": lambda said: emulator.faults.next(**said),
            "POST faults/clear": lambda _said: emulator.faults.clear(),
            "GET requests": self._requests,
            "POST requests/clear": lambda _said: emulator.requests.clear(),
        }

    def answer(self, request: Request) -> Answer:
        verb = f"{request.method} {request.path.removeprefix(CONTROL_PREFIX)}"
        if verb not in self._verbs:
            return json_answer(404, {"error": f"no such verb: {verb}", "verbs": sorted(self._verbs)})
        try:
            said = json.loads(request.body or b"{}")
            done = self._verbs[verb](said)
        except ApiError as error:
            return json_answer(error.status, {"error": error.message})
        except (ValueError, TypeError, KeyError) as error:
            return json_answer(400, {"error": f"{type(error).__name__}: {error}"})
        return json_answer(200, {"ok": True} if done is None else done)

    def _clock(self, said: dict[str, Any]) -> dict[str, str]:
        return {"now": self._emulator.advance(said.get("advance", 0)).isoformat()}

    def _bot(self, said: dict[str, Any]) -> dict[str, str]:
        asked = said.get("capabilities")
        return {"token": self._emulator.bot(None if asked is None else frozenset(asked))}

    def _database(self, said: dict[str, Any]) -> dict[str, str]:
        schema = preset(said["preset"]) if "preset" in said else said["properties"]
        return self._emulator.database(schema, said.get("title", "Tasks"))._asdict()

    def _page(self, said: dict[str, Any]) -> dict[str, str]:
        return {"id": self._emulator.page(said["database_id"], said["properties"])}

    def _requests(self, _said: dict[str, Any]) -> dict[str, Any]:
        served = [{**one._asdict(), "at": one.at.isoformat()} for one in self._emulator.requests]
        return {"requests": served, "count": len(served)}
