"""doctor, prime, version: check the setup, and print instructions for agents."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from dibs import __version__
from dibs.console.commands import Command
from dibs.core.errors import DibsError
from dibs.core.task import Json, Status
from dibs.core.times import in_words, time_text
from dibs.protocols.ntask.answers import Failure, answer, failure_of
from dibs.protocols.ntask.commands.work import overdue_among
from dibs.protocols.ntask.settings import open_desk, store_url
from dibs.stores.port import Query

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from dibs.desk import Desk

GUIDANCE = """\
## Pulling tasks with ntask

Every `ntask` command prints one JSON object: `{"ok": true, ...}`, or `{"ok": false, "error": {"code", "message"}}`.
Act on the exit status and on `error.code`; the message says what to do.

1. `ntask next` shows the task to claim. Claim that one, not another. `"task": null` means that no task is free now:
   wait 30 s, then 60, 120 and 240 s between further tries.
2. `ntask claim TASK-42 --run-id RUN --agent-name NAME` claims it. Keep `task.lock_token` of the answer; it is shown
   only here. A claim can take some seconds. Do not start before it has answered `"ok": true`.
   In a fleet, `ntask pull --run-id RUN --agent-name NAME` does both at once: the task with its lock, or null. Agents
   that pull at the same time get different tasks from the top of the order.
3. While you work: `ntask heartbeat TASK-42 --run-id RUN --lock-token TOKEN` at half of the lease, so every 10 minutes
   by default.
4. End it with exactly one of these, each with `--run-id RUN --lock-token TOKEN`:
   - `ntask complete TASK-42 --artifacts "links, commits, a summary"`
   - `ntask review TASK-42 --artifacts "what to look at"` if a person should review it
   - `ntask block TASK-42 --reason "..." --unblock-action "what a person has to do" --next-check 2026-01-31T12:00:00Z`
   - `ntask release TASK-42` to release it, `ntask cancel TASK-42 --reason "..."` to cancel it

| Exit | `error.code` | What to do |
|---|---|---|
| 0 | | Continue. |
| 2 | CONFLICT | Another holder has it. Wait `error.retry_after_ms`, then run `ntask next`. Never insist on a task. |
| 3 | MISCONFIGURED, CLI_MISSING | Stop and inform a person; `ntask doctor` shows the problem. |
| 3 | MISCONFIGURED, and `task.status` is DONE or CANCELED | It was finished before: run `ntask next`. |
| 3 | INCOMPLETE_SUBTASKS | Finish or cancel the sub-tasks first; the task is still yours. |
| 4 | LOST_LOCK | The task is no longer yours. Stop at once, write nothing more about it, then `ntask next`. |
| 5 | API_ERROR | Try again after 2, 4 and 8 s. If it persists and you hold a lock, `block` the task when you can. |

An API_ERROR of `claim` may carry `task.lock_token`: the claim was written but not confirmed. Do not work on it:
check with `heartbeat` whether it is yours, or `release` it.

Always: work only under a confirmed lock; leave a task that a person has taken over; keep the lock token out of logs,
comments and messages.
"""


_NAMED = 10  # overdue tasks that a message lists


class Check(NamedTuple):
    ok: bool
    message: str


class Report(NamedTuple):
    """The result of `doctor`; `failure` is the first problem, with its usual code."""

    checks: dict[str, Check]
    failure: Failure | None = None

    def as_json(self) -> dict[str, Json]:
        return {name: {"ok": check.ok, "message": check.message} for name, check in self.checks.items()}


def examined() -> Report:
    """Run the checks; without a store, those of its content are left out."""
    checks: dict[str, Check] = {}
    try:
        url = store_url()
        checks["env"] = Check(ok=True, message=_named_by(url))
        with open_desk() as desk:
            failure = _examine(desk, checks) or _failure_of(desk, checks)
    except DibsError as error:
        failure = failure_of(error)
        checks["reachable" if "env" in checks else "env"] = Check(ok=False, message=error.message)
    return Report(checks, failure)


def _named_by(url: str) -> str:
    import os

    named = "NTASK_STORE" if os.environ.get("NTASK_STORE") else "NOTION_TASKS_DB_ID"
    return f"{named} names a store of kind {url.partition(':')[0] if '://' in url else 'sqlite'}"


def _examine(desk: Desk, checks: dict[str, Check]) -> Failure | None:
    """Run the store's own checks, then those that apply to any store."""
    failure = None
    for name, look in _LOOKS.items():
        try:
            checks.update({found: check for found, check in look(desk).items() if found not in checks})
        except DibsError as error:
            failure = failure or failure_of(error)
            checks[name] = Check(ok=False, message=error.message)
        if any(not check.ok for check in checks.values()):
            break  # later checks would fail for the same reason
    return failure


def _kind(desk: Desk) -> dict[str, Check]:
    report = desk.examine()
    if report is not None:
        return {one.name: Check(one.ok, one.message) for one in report}
    facts = desk.describe()
    return {"reachable": Check(ok=True, message=f"{facts['kind']}, {facts['place']}")}


def _exclusive(desk: Desk) -> dict[str, Check]:
    kind = desk.describe()["kind"]
    how = {
        "strict": "strict: the store itself lets one agent have a task",
        "timed": "timed: guarded by waiting and reading again; ?arbiter=URL in NTASK_STORE makes it strict",
    }[desk.capabilities.exclusive]
    return {"store": Check(ok=True, message=kind), "exclusive": Check(ok=True, message=how)}


def _clock(desk: Desk) -> dict[str, Check]:
    return {"clock": Check(ok=True, message=f"the store's clock, which decides, shows {time_text(desk.now())}")}


def _overdue(desk: Desk) -> dict[str, Check]:
    """Report overdue checks; they are no fault of the store, so `ok` stays true."""
    now = desk.now()
    late = overdue_among(desk.find(Query(desk.scope, (Status.BLOCKED,))), now)
    if not late:
        return {"overdue": Check(ok=True, message="no blocked task is past its NextCheckAt")}
    told = ", ".join(
        f"{task.id} ({in_words(now - task.next_check_at)})" for task in late[:_NAMED] if task.next_check_at
    )
    more = f" and {len(late) - _NAMED} more" if len(late) > _NAMED else ""
    return {"overdue": Check(ok=True, message=f"past their NextCheckAt: {told}{more}; see 'ntask list --overdue'")}


_LOOKS: dict[str, Callable[[Desk], dict[str, Check]]] = {
    "reachable": _kind,
    "exclusive": _exclusive,
    "clock": _clock,
    "overdue": _overdue,
}


def _failure_of(desk: Desk, checks: dict[str, Check]) -> Failure | None:
    """Return all problems, under the code that `next` would give: API_ERROR if waiting may help."""
    wrong = [f"{name}: {check.message}" for name, check in checks.items() if not check.ok]
    if not wrong:
        return None
    try:
        desk.ready(limit=1)
    except DibsError as error:
        return Failure(failure_of(error).code, " ".join(wrong))
    return Failure("MISCONFIGURED", " ".join(wrong))


def doctor(_args: argparse.Namespace) -> int:

    report = examined()
    if report.failure is None:
        return answer({"checks": report.as_json()})
    raise Failure(report.failure.code, report.failure.message, {"checks": report.as_json()})


def prime(_args: argparse.Namespace) -> int:
    """Print Markdown, to be appended to an agent's instructions."""

    print(GUIDANCE, end="")
    return 0


def version(_args: argparse.Namespace) -> int:
    return answer({"version": __version__, "program": "ntask (dibs)"})


COMMANDS = {
    "doctor": Command(lambda _parser: None, doctor),
    "prime": Command(lambda _parser: None, prime),
    "version": Command(lambda _parser: None, version),
}
