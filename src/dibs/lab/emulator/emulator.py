"""The emulator for tests, and `/_emulator/…`, its control interface for other processes and languages."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from dibs.lab.emulator import api
from dibs.lab.emulator.api import Faults
from dibs.lab.emulator.model import ALL_CAPABILITIES, FRESH_CAPABILITIES, ApiError, Clock, whole_id
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
    """A Notion that serves while it is entered. The same seed produces the same ids, orders and faults."""

    def __init__(self, clock: Callable[[], datetime] | None = None, seed: int = 0, port: int = 0) -> None:
        self._stopping = threading.Event()
        self.clock = Clock(clock)
        self.faults = Faults(seed)
        self._workspace = Workspace(self.clock, self.faults, seed)
        self.human = Human(self._workspace, "Ann")
        self.token = self.bot(ALL_CAPABILITIES, "dibs")
        self._api = api.Api(self._workspace, self.faults, self._stopping, seed)
        self._control = Control(self)
        self._server = Server(self.answer, self._stopping, port)

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
        """Return the token of a new integration, by default without the capability for comments."""
        with self._workspace.lock:
            wanted = FRESH_CAPABILITIES if capabilities is None else capabilities
            return str(self._workspace.add_bot(name, wanted).token)

    def database(self, schema: Mapping[str, object], title: str = "Tasks") -> Database:
        """Create a database with columns in the API's form; a relation without a target points to itself."""
        with self._workspace.lock:
            source = self._workspace.add_source(title, dict(schema), self.human.user, itself=True)
        return Database(source.database_id, source.id)

    def page(self, database_id: str, properties: Mapping[str, object]) -> str:
        """Create a row as a person and return its id."""
        with self._workspace.lock:
            source = self._workspace.database(whole_id(database_id) or database_id, None)
            return self._workspace.add_page(source, dict(properties), self.human.user).id

    def advance(self, seconds: float) -> datetime:
        """Advance the clock; no request waits for it."""
        return self.clock.advance(seconds)

    def answer(self, request: Request) -> Answer | None:
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


_TEXT: dict[str, Any] = {"rich_text": {}}
_DATE: dict[str, Any] = {"date": {}}
_STATUSES = ("BACKLOG", "READY", "IN_PROGRESS", "BLOCKED", "REVIEW", "DONE", "CANCELED")
_OPEN = 'prop("Status") != "DONE" and prop("Status") != "CANCELED"'


def choices(*names: str) -> dict[str, Any]:
    return {"options": [{"name": name} for name in names]}


def ntask_schema(*, status: str = "select", agent: str = "rich_text", optional: bool = True) -> dict[str, Any]:
    """The task database of ntask. `Dependencies` counts sub-tasks that are neither DONE nor CANCELED."""
    schema: dict[str, Any] = {
        "Task name": {"title": {}},
        "ID": {"unique_id": {"prefix": "TASK"}},
        "Status": {status: choices(*_STATUSES)},
        "Priority": {"number": {}},
        "Class": {"select": choices("EXPEDITE", "FIXED_DATE", "STANDARD", "INTANGIBLE")},
        "Claimed By": {"select": choices("AGENT", "HUMAN")},
        "Agent": _TEXT if agent == "rich_text" else {agent: {}},
        "Agent Run": _TEXT,
        "Lock Token": _TEXT,
        "Lock Expires": _DATE,
        "Sub-tasks": {"relation": {"dual_property": {"synced_property_name": "Parent-task"}}},
        "Open": {"formula": {"expression": _OPEN}},
        "Dependencies": {
            "rollup": {"relation_property_name": "Sub-tasks", "rollup_property_name": "Open", "function": "checked"}
        },
    }
    if optional:
        schema |= dict.fromkeys(("Artifacts", "BlockerReason", "UnblockAction"), _TEXT)
        schema |= dict.fromkeys(("NextCheckAt", "StartedAt", "DoneAt"), _DATE)
    return schema


def mesh_schema(*, nonce: bool = True) -> dict[str, Any]:
    """The task database of the mesh; without `nonce` as in the protocol's document."""
    schema: dict[str, Any] = {
        "title": {"title": {}},
        "status": {"select": choices("OPEN", "IN_PROGRESS", "BLOCKED", "COMPLETED", "CANCELLED")},
        "claimed_by": _TEXT,
        "claimed_at": _DATE,
        "claim_timeout_minutes": {"number": {}},
        "priority": {"number": {}},
    }
    return {**schema, "claim_nonce": _TEXT} if nonce else schema


def mesh_task_log_schema() -> dict[str, Any]:
    return {
        "Task": {"title": {}},
        "Agent": {"select": choices("Sandman", "Oracle")},
        "Priority Score": {"number": {}},
        "Confidence": {"number": {}},
        "Coherence": {"number": {}},
        "Points Earned": {"number": {}},
        "Completed At": _DATE,
        "Status": {"select": choices("COMPLETED")},
        "Notes": _TEXT,
    }


def mesh_communication_log_schema() -> dict[str, Any]:
    return {
        "Event": {"title": {}},
        "Source Agent": _TEXT,
        "Target Agent": _TEXT,
        "Status": {"select": choices("Sent", "Received", "Timeout", "Blocked", "Resolved")},
        "Timeout (min)": {"number": {}},
        "Blocked Task": _TEXT,
        "Resolution": _TEXT,
        "Timestamp": _DATE,
        "Retry Count": {"number": {}},
    }


def kurultai_schema() -> dict[str, Any]:
    """The database in which kurultai's senders steer their tasks."""
    return {
        "Name": {"title": {}},
        "Status": {"select": choices("Not Started", "Blocked", "Ready", "In Progress", "Completed", "Cancelled")},
        "Priority": {"select": choices("Critical", "High", "Medium", "Low", "Backlog")},
        "Agent": {"select": choices("Kublai", "Möngke", "Chagatai", "Temüjin", "Jochi", "Ögedei")},
        "ID": _TEXT,
        "Last Synced": _DATE,
        "SenderHash": _TEXT,
        "Result": _TEXT,
        "Depends on": {"relation": {"single_property": {}}},
    }


_PRESETS: dict[str, Callable[[], dict[str, Any]]] = {
    "ntask": ntask_schema,
    "kurultai": kurultai_schema,
    "mesh": mesh_schema,
    "mesh_task_log": mesh_task_log_schema,
    "mesh_communication_log": mesh_communication_log_schema,
}


def preset(name: str) -> dict[str, Any]:
    if name not in _PRESETS:
        raise ValueError(f"no such preset: {name}; there are {', '.join(_PRESETS)}")
    return _PRESETS[name]()


# title, status, priority, class, title of the parent task
_DEMO_NTASK = (
    ("Publish the price list", "BACKLOG", 5, "STANDARD", None),
    ("Agree on the columns", "READY", 8, "STANDARD", "Publish the price list"),
    ("Read CSV into rows", "READY", 5, "STANDARD", "Publish the price list"),
    ("Answer the auditor", "READY", 3, "FIXED_DATE", None),
    ("Fix the broken sign-in", "READY", 9, "EXPEDITE", None),
    ("Tidy the wiki", "READY", 5, "INTANGIBLE", None),
)
_DEMO_MESH = ("Summarise the meeting", "Translate the manual", "Check the links")


def demo_databases(notion: Emulator, layout: str, *, empty: bool) -> dict[str, str]:
    """Make the databases of a layout; return their ids by environment variable."""
    if layout == "kurultai":  # its rows belong to senders, who are not known yet
        return {"NOTION_DATABASE_ID": notion.database(kurultai_schema(), "Kurultai Tasks").id}
    return _demo_mesh(notion, empty=empty) if layout == "mesh" else _demo_ntask(notion, empty=empty)


def _demo_ntask(notion: Emulator, *, empty: bool) -> dict[str, str]:
    made = notion.database(ntask_schema(), "Tasks")
    pages: dict[str, str] = {}
    for title, status, priority, service_class, parent in () if empty else _DEMO_NTASK:
        properties: dict[str, Any] = {
            "Task name": text_value("title", title),
            "Status": {"select": {"name": status}},
            "Priority": {"number": priority},
            "Class": {"select": {"name": service_class}},
            "Parent-task": {"relation": [{"id": pages[parent]}] if parent else []},
        }
        pages[title] = notion.page(made.id, properties)
    return {"NOTION_TASKS_DB_ID": made.id}


def _demo_mesh(notion: Emulator, *, empty: bool) -> dict[str, str]:
    tasks = notion.database(mesh_schema(), "Tasks")
    for title in () if empty else _DEMO_MESH:
        notion.page(tasks.id, {"title": text_value("title", title), "status": {"select": {"name": "OPEN"}}})
    return {
        "MESH_TASKS_DB_ID": tasks.id,
        "MESH_TASK_LOG_DB_ID": notion.database(mesh_task_log_schema(), "Agent Task Log").id,
        "MESH_COMM_LOG_DB_ID": notion.database(mesh_communication_log_schema(), "Mesh Communication Log").id,
    }


def text_value(kind: str, content: str) -> dict[str, Any]:
    return {kind: [{"text": {"content": content}}]}
