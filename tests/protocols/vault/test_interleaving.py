"""Interruptions between two steps of an agent, forced: a person, another agent, or a kill."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

from dibs.console.stopping import Stop
from dibs.core.lifecycle import Verb
from dibs.core.task import Actor
from dibs.desk import Desk
from dibs.protocols.vault import drafts
from dibs.protocols.vault.agent import Agent, AgentPace
from dibs.protocols.vault.execution import Command, RetryPolicy, TaskRunner, Waiter
from dibs.protocols.vault.health import Registration
from dibs.protocols.vault.publishing import Publisher
from dibs.protocols.vault.settings import ALLOWED, SENSITIVE, VAULT, Permissions, Role
from dibs.protocols.vault.workplace import Journal, TrackedDesk, Workplace
from dibs.stores.vault.store import VaultStore

from .test_actions import CLOUD, LOCAL, append

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dibs.core.task import Task
    from support.vault import Vault

LEASE = timedelta(minutes=1)


class Slow(Agent):
    """An agent that lets something happen after it has chosen a task and before it claims it."""

    between: Callable[[], object] = staticmethod(lambda: None)

    def _take(self, task: Task) -> bool:
        Slow.between()
        Slow.between = staticmethod(lambda: None)
        return super()._take(task)


@contextmanager
def agent(vault: Vault, role: Role = Role.LOCAL) -> Iterator[tuple[Slow, Registration]]:
    with VaultStore(str(vault.root)) as store, Stop() as stop, Waiter(str(vault.root), stop) as waiter:
        registration = Registration(str(vault.root), "ann")
        registration.begin("agent-1", role.value, store.now())
        journal = Journal(str(vault.root / "Logs/agent-ann.log"), store.now, lambda _: None)
        workplace = Workplace(
            str(vault.root),
            TrackedDesk(Desk(store, policy=VAULT, by=Actor("ann", "agent-1"))),
            journal,
            waiter,
            Publisher(),
        )
        work = TaskRunner(workplace, Command(["true"]), RetryPolicy(LEASE, 3, LEASE), {})
        rounds = AgentPace(once=True, interval=LEASE, lease=LEASE)
        yield Slow(workplace, Permissions(role, ALLOWED[role], SENSITIVE), rounds, work, registration), registration
        registration.close()


def test_task_whose_action_changed_is_released(vault: Vault) -> None:
    vault.task("x", action="triage")
    with agent(vault) as (one, registration):
        Slow.between = staticmethod(lambda: vault.task("x", action="launch"))
        one.run()
        assert registration.state.total_claims == 1
    assert vault.places("x") == ["Needs_Action/x.md"]
    assert vault.front("Needs_Action/x.md")["reason"] == "\"this agent may not do 'launch'\""
    assert "retries" not in vault.front("Needs_Action/x.md")


def test_task_taken_by_another_agent_is_counted_as_lost(vault: Vault) -> None:
    vault.task("x")
    with agent(vault) as (one, registration):
        Slow.between = staticmethod(lambda: vault("claim", "x.md", AGENT_NAME="bob"))
        one.run()
        assert (registration.state.total_claims, registration.state.lost, registration.state.claim_errors) == (0, 1, 0)
        assert registration.state.success_rate == 0
    assert vault.places("x") == ["In_Progress/bob/x.md"]


def test_task_deleted_after_it_was_chosen_is_lost(vault: Vault) -> None:
    path = vault.task("x")
    with agent(vault) as (one, registration):
        Slow.between = staticmethod(path.unlink)
        assert one.run() == 0
        assert registration.state.lost == 1


def test_agent_killed_after_its_draft_drafts_again(vault: Vault) -> None:
    vault.task("x", action="send")
    with VaultStore(str(vault.root)) as store:
        tracked = TrackedDesk(Desk(store, policy=VAULT, by=Actor("cloud", "agent-0")))
        (claimed,) = tracked.desk.claim("cloud", refs=["x"], lease=timedelta(seconds=1), run="agent-0")
        drafts.make(tracked, claimed.task, "half a draft", store.now())
    assert vault.places("draft-x-1") == ["Pending_Approval/draft-x-1.md"]
    working = vault.at_work("--", "echo", "a whole draft", name="cloud", AGENT_ROLE="CLOUD")
    working.says("drafted x.md")
    assert vault.places("draft-x-1") == ["Rejected/draft-x-1.md"]
    assert "a whole draft" in vault.read("Pending_Approval/draft-x-2.md")


def test_an_orphaned_draft_decides_nothing(vault: Vault) -> None:
    vault.task("x", action="send")
    vault("agent", "--once", "--", "echo", "one", **CLOUD)
    vault.write("Pending_Approval/draft-x-7.md", f"---\ndraft_of: x\n---\n\nPay!\n{drafts.DECIDE_BELOW}\nAPPROVED\n")
    vault("agent", "--once", "--", "true", **LOCAL)
    assert vault.places("x") == ["Pending_Approval/x.md"], "the task names another draft"


def test_approval_interrupted_by_a_kill_is_completed(vault: Vault) -> None:
    vault.task("x", action="send")
    vault("agent", "--once", "--", "true", **CLOUD)
    append(vault.root / "Pending_Approval/draft-x-1.md", "APPROVED")
    with VaultStore(str(vault.root)) as store:
        tracked = TrackedDesk(Desk(store, policy=VAULT, by=Actor("local")))
        tracked.mark(store.get("default", "draft-x-1"), approval_status="approved")
        tracked.mark(store.get("default", "x"), approval_status="approved")
    vault("agent", "--once", "--", "true", **LOCAL)
    assert vault.places("x") == ["Done/x.md"]
    assert vault.places("draft-x-1") == ["Done/draft-x-1.md"]


def test_draft_left_by_a_kill_follows_its_task(vault: Vault) -> None:
    vault.task("x", action="send")
    vault("agent", "--once", "--", "true", **CLOUD)
    append(vault.root / "Pending_Approval/draft-x-1.md", "APPROVED")
    vault("agent", "--once", "--", "true", **LOCAL, ALLOWED_ACTIONS="approve")
    with VaultStore(str(vault.root)) as store:
        tracked = TrackedDesk(Desk(store, policy=VAULT, by=Actor("local")))
        (claimed,) = tracked.desk.claim("local", refs=["x"])
        token = claimed.task.lease.token if claimed.task.lease else ""
        tracked.move(claimed.task, Verb.DONE, token=token)
    assert vault.places("draft-x-1") == ["Pending_Approval/draft-x-1.md"]
    vault("agent", "--once", "--", "true", **LOCAL)
    assert vault.places("draft-x-1") == ["Done/draft-x-1.md"]


def test_approval_read_by_two_agents_is_done_once(vault: Vault) -> None:
    names = [f"x{number}" for number in range(6)]
    for name in names:
        vault.task(name, action="send")
    vault("agent", "--once", "--", "true", **CLOUD)
    for name in names:
        append(vault.root / f"Pending_Approval/draft-{name}-1.md", "APPROVED")
    record = vault.beside / "sent"
    both = [vault.agent("--once", "--", "sh", "-c", f"echo $DIBS_TASK_ID >> {record}", name=name) for name in "ab"]
    for one in both:
        one.process.wait(240)
    assert vault("agent", "--once", "--", "sh", "-c", f"echo $DIBS_TASK_ID >> {record}").status == 0
    assert sorted(record.read_text().split()) == names
    assert sorted(vault.places("draft-*")) == [f"Done/draft-{name}-1.md" for name in names]
