"""An agent's state on disk, the lock on its name, /health and Dashboard.md."""

from __future__ import annotations

import fcntl
import json
import os
import threading
import time
from datetime import datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, NamedTuple

from dibs.core.errors import Held, InvalidInput, StoreUnavailable
from dibs.core.times import time_from, time_text
from dibs.stores.vault.disk import LARGEST, Disk, Stamp
from dibs.stores.vault.places import IN_PROGRESS, SUFFIX, agent_folder
from dibs.stores.vault.vault import HOME

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dibs.core.task import Json

HEALTHY, DEGRADED, ERROR = "healthy", "degraded", "error"

_FAILED_ROUNDS = 3  # in a row: the status is error
_REMEMBERED = timedelta(minutes=5)  # an error makes the status degraded for so long


class State(NamedTuple):
    """An agent's counters and last error since its start."""

    agent: str
    role: str
    run: str
    pid: int
    started_at: datetime
    last_activity: datetime
    total_claims: int = 0
    lost: int = 0  # claims that other agents got first
    claim_errors: int = 0
    done: int = 0
    failed: int = 0
    lost_leases: int = 0
    released: int = 0
    problems: tuple[str, ...] = ()  # files that cannot be worked on, and why
    error_count: int = 0
    last_error: str | None = None
    last_error_at: datetime | None = None
    failed_rounds: int = 0  # in a row
    offline: bool = False
    ended_at: datetime | None = None

    @property
    def success_rate(self) -> float:
        """The share of successful claims; 1.0 without any."""
        tried = self.total_claims + self.lost + self.claim_errors
        return round(self.total_claims / tried, 4) if tried else 1.0

    def as_json(self) -> dict[str, Json]:
        said = {**self._asdict(), "problems": list(self.problems)}
        return {**said, **{name: time_text(when) for name in _TIMES if (when := getattr(self, name))}}


_TIMES = ("started_at", "last_activity", "last_error_at", "ended_at")


def state_from(data: Mapping[str, Json]) -> State:
    """The state from `as_json`; ValueError, KeyError or TypeError if it is invalid."""
    values = {name: data[name] for name in State._fields if name in data}
    problems = values.get("problems")
    values["problems"] = tuple(map(str, problems)) if isinstance(problems, list | tuple) else ()
    for name in _TIMES:
        if values.get(name) is not None:
            values[name] = time_from(str(values[name]))  # type: ignore[assignment]  # a time again
    return State(**values)  # type: ignore[arg-type]  # its own fields


def report(state: State, active: int, now: datetime, *, running: bool = True) -> dict[str, Json]:
    """The document of /health, as the contract defines it."""
    end = now if running or state.ended_at is None else state.ended_at
    return {
        "status": status_of(state, now) if running else ERROR,
        "timestamp": time_text(now),
        "last_activity": time_text(state.last_activity),
        "uptime_seconds": round((end - state.started_at).total_seconds(), 3),
        "error_count": state.error_count,
        "last_error": state.last_error,
        "running": running,
        "role": state.role,
        "offline": state.offline,
        "problems": list(state.problems),
        "tasks": {
            "done": state.done,
            "failed": state.failed,
            "lost_leases": state.lost_leases,
            "released": state.released,
        },
        "coordination": {
            "agent_name": state.agent,
            "active_claims": active,
            "total_claims": state.total_claims,
            "claim_conflicts_avoided": state.lost,
            "claim_success_rate": state.success_rate,
        },
    }


def status_of(state: State, now: datetime) -> str:
    if state.failed_rounds >= _FAILED_ROUNDS:
        return ERROR
    recent = state.last_error_at is not None and now - state.last_error_at < _REMEMBERED
    return DEGRADED if state.offline or state.failed_rounds or recent or state.problems else HEALTHY


def active_claims(root: str, agent: str) -> int:
    """The number of files in the agent's folder."""
    folder = os.path.join(root, IN_PROGRESS, agent_folder(agent))
    return sum(name.endswith(SUFFIX) and not name.startswith(".") for _, _, found in os.walk(folder) for name in found)


_FOLDER = "agents"
_TRIES, _MOMENT = 5, 0.02


class Registration:
    """The lock on an agent's name, from its start to its end. A process that dies releases it."""

    def __init__(self, root: str, agent: str) -> None:
        self._agent = agent
        self._path = state_path(root, agent)
        self.state: State
        try:
            os.makedirs(os.path.dirname(self._path), exist_ok=True)
            self._fd = os.open(f"{self._path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StoreUnavailable(f"{self._path} cannot be written: {error.strerror}.") from None
        if not self._seize():
            os.close(self._fd)
            raise Held(
                f"An agent '{agent}' is at work in this vault already. Give this one another name (AGENT_NAME).",
                holder=agent,
            )
        self.before = read_state(self._path)

    def _seize(self) -> bool:
        """Try several times: `is_running` holds the lock for a moment."""
        for _ in range(_TRIES):
            try:
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                time.sleep(_MOMENT)
            else:
                return True
        return False

    def begin(self, run: str, role: str, now: datetime) -> None:
        """Start the state of a run."""
        self.state = State(self._agent, role, run, os.getpid(), now, now)

    def update(self, **changes: object) -> None:
        self.state = self.state._replace(**changes)  # type: ignore[arg-type]  # fields of State

    def save(self) -> None:
        """Write the state for other processes; StoreUnavailable if that fails."""
        fresh = f"{self._path}.new"
        try:
            with open(fresh, "w", encoding="utf-8") as file:
                json.dump(self.state.as_json(), file, ensure_ascii=False)
            os.replace(fresh, self._path)
        except OSError as error:
            raise StoreUnavailable(f"{self._path} cannot be written: {error.strerror}.") from None

    def close(self) -> None:
        os.close(self._fd)


def state_path(root: str, agent: str) -> str:
    return os.path.join(root, HOME, _FOLDER, f"{agent_folder(agent)}.json")


def read_state(path: str) -> State | None:
    """The state in a file; None if it is missing or invalid."""
    try:
        with open(path, encoding="utf-8") as file:
            return state_from(json.load(file))
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, InvalidInput):
        return None  # cut off by a crash: its claims end with their leases


def is_running(root: str, agent: str) -> bool:
    """Whether an agent of this name is running."""
    try:
        fd = os.open(f"{state_path(root, agent)}.lock", os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def neighbours(root: str, agent: str) -> bool:
    """Whether other agents are running in this folder."""
    return any(state.agent != agent and is_running(root, state.agent) for state in everyone(root))


def everyone(root: str) -> list[State]:
    """The agents that are or were running here."""
    folder = os.path.join(root, HOME, _FOLDER)
    try:
        found = sorted(name for name in os.listdir(folder) if name.endswith(".json"))
    except FileNotFoundError:
        return []
    states = (read_state(os.path.join(folder, name)) for name in found)
    return [state for state in states if state is not None]


_PATIENCE = 5.0  # seconds for a request to arrive


class HealthServer:
    """Serves /health until it is closed."""

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
        document = self.report()
        self._answer(503 if document["status"] == ERROR else 200, document)

    do_HEAD = do_GET  # noqa: N815 - the base class's name

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

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Requests are not logged."""


_TEXT = """\
# Dashboard

Every Markdown file in these folders is a task. Its folder is its status.

- `Needs_Action`: put new tasks here. Sub-folders are domains. `action:` in the front matter is the kind of work.
- `In_Progress/<agent>`: an agent works on it. Move, edit or delete the file, and the agent stops: you win.
- `Pending_Approval`: waits for you. To approve a draft, write `APPROVED` as its last line, or move it to `Done`.
  To reject it, write `REJECTED:` and a reason as its last line, or move it to `Rejected`.
- `Done`, `Rejected`: finished or canceled.

`dibs vault status` lists tasks, agents and drafts that need approval. Change this page as you like.
"""


def write_dashboard(root: str) -> None:
    """Write the page unless there is one, which is a person's."""
    try:
        with open(os.path.join(root, "Dashboard.md"), "x", encoding="utf-8") as file:
            file.write(_TEXT)
    except FileExistsError:
        return
    except OSError as error:
        raise StoreUnavailable(f"Dashboard.md cannot be written in {root}: {error.strerror}.") from None


_BEGIN, _END = "<!-- dibs: files that cannot be worked on -->", "<!-- dibs: end of the list -->"
_HEADING = "## Files that cannot be worked on"


def show_problems(root: str, problems: Sequence[str]) -> None:
    """List problems at the end of Dashboard.md, unless a person is writing the page at this moment."""
    path, fresh = os.path.join(root, "Dashboard.md"), os.path.join(root, HOME, f"dashboard-{os.getpid()}")
    disk = Disk(durable=False)
    try:
        before = disk.read(path)
        new = _with_list(before.data.decode(), problems).encode()
        if new == before.data or before.unfinished or len(before.data) > LARGEST:
            return
        disk.write(fresh, new)
        try:
            disk.swap(fresh, path)
            old = disk.read(fresh)
            if Stamp.of(old.stat) != Stamp.of(before.stat) or old.unfinished:
                disk.swap(fresh, path)
        finally:
            disk.remove(fresh)
    except (OSError, UnicodeDecodeError):
        return  # no readable page: the log, `status` and /health have the list


def _with_list(text: str, problems: Sequence[str]) -> str:
    """The page with these problems listed. Lines that a person, or a merge, has put into the list stay on the page."""
    kept: list[str] = []
    place, listed = None, False
    for line in text.splitlines(keepends=True):
        said = line.strip()
        if said in {_BEGIN, _END}:
            listed = said == _BEGIN
            place = len(kept) if place is None else place
            continue
        listed = listed and (said in {"", _HEADING} or said.startswith("- "))
        kept += [] if listed else [line]
    if place is None and not problems:
        return text
    head, tail = "".join(kept[:place]), "".join(kept[place:] if place is not None else ())
    shown = "".join(f"- {problem}\n" for problem in problems)
    block = f"{_BEGIN}\n{_HEADING}\n\n{shown}{_END}\n" if problems else ""
    above = f"{head.rstrip()}\n\n" if head.strip() else ""
    return f"{above}{block}{tail}".rstrip() + "\n"
