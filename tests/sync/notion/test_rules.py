"""The rules: work is not interrupted; refused changes are reported and corrected."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from dibs.chat.opening import chosen_session
from dibs.core.errors import Misconfigured, StoreError, StoreUnavailable
from dibs.core.lifecycle import Verb
from dibs.core.task import Draft, Edit, Link, Status
from dibs.lab.emulator import kurultai_schema
from dibs.mail import box_of, letter_of, sender_box
from dibs.sync.notion import apply
from support.notion import text, title
from sync.notion.scene import ANN

if TYPE_CHECKING:
    from dibs.desk import Desk
    from dibs.sync.notion.reconcile import Kind, Pair
    from sync.notion.scene import Scene


@pytest.fixture
def page(scene: Scene) -> str:
    """Create a row that both sides agree on."""
    made = scene.row("Research", status="Ready", priority="Medium", agent="Jochi")
    scene.sync()
    return made


def _hold(scene: Scene) -> str:
    (claimed,) = scene.desk.claim("analyst", refs=[scene.task("Research").id], lease=timedelta(days=9))
    assert claimed.task.lease is not None
    return claimed.task.lease.token


def _refused(scene: Scene, page: str, **said: Any) -> str:
    """Request a change in Notion that is refused once and corrected; return the reason."""
    before, shown = scene.task("Research"), scene.shown(page)
    scene.edit(page, **said)
    report = scene.sync()
    (skipped,) = report.skipped
    assert not report.applied
    now = scene.task("Research")
    assert now._replace(updated_at=before.updated_at, extra={}) == before._replace(extra={})
    assert {**scene.shown(page), "Last Synced": None} == {**shown, "Last Synced": None}
    line = [event for event in scene.changes() if event.reason == skipped.skip][-1]
    assert line.detail["applied"] is False
    scene.clock.advance(minutes=30)
    assert scene.sync().skipped == ()
    return skipped.skip


def test_work_in_progress_is_not_interrupted(scene: Scene, page: str) -> None:
    token = _hold(scene)
    scene.sync()
    assert scene.shown(page)["Status"] == "In Progress"
    for word in ("Blocked", "Completed", "Cancelled", "Not Started"):
        assert "in progress" in _refused(scene, page, status=word)
    assert "in progress" in _refused(scene, page, agent="Temüjin")
    scene.edit(page, priority="Critical", name="Research it well")
    assert len(scene.sync().applied) == 2
    task = scene.task("Research it well")
    assert (task.priority, task.title) == (-1.0, "Research it well")
    scene.desk.renew(task.id, token)


def test_completed_task_is_never_reverted(scene: Scene, page: str) -> None:
    link = "https://example.test/report"
    scene.desk.move(Verb.DONE, scene.task("Research").id, token=_hold(scene), artifacts=[link])
    scene.sync()
    assert (scene.shown(page)["Status"], scene.shown(page)["Result"]) == ("Completed", link)
    for said in ({"status": "Ready"}, {"status": "In Progress"}, {"priority": "Critical"}, {"name": "Else"}):
        assert "completed" in _refused(scene, page, **said)


def test_nothing_is_set_free_before_its_time(scene: Scene, page: str) -> None:
    scene.add(Draft("First", id="first"))
    scene.desk.link([Link(scene.task("Research").id, "first")])
    scene.sync()
    assert scene.shown(page)["Status"] == "Not Started"
    assert "comes before it" in _refused_but_missing(scene, page, status="Ready")
    (claimed,) = scene.desk.claim("ann", refs=["first"])
    assert claimed.task.lease is not None
    scene.desk.move(Verb.DONE, "first", token=claimed.task.lease.token)
    scene.sync()
    assert scene.shown(page)["Status"] == "Ready"


def _refused_but_missing(scene: Scene, page: str, **said: Any) -> str:
    scene.edit(page, **said)
    found = [each.skip for each in scene.sync().skipped if each.kind != "missing_in_notion"]
    assert len(found) == 1
    return found[0]


def test_a_safe_sync_neither_completes_nor_cancels_nor_begins(scene: Scene, page: str) -> None:
    for word, why in (("Completed", "aggressive"), ("Cancelled", "aggressive"), ("In Progress", "an agent takes")):
        assert why in _refused(scene, page, status=word)
    assert "is not a status" in _refused(scene, page, status="Someday")
    assert "is not a priority" in _refused(scene, page, priority="Odd")
    assert "is not an agent" in _refused(scene, page, agent="Somebody Else")
    assert "needs a name" in _refused(scene, page, name="")


def test_aggressive_sync_completes_and_cancels_idle_tasks(scene: Scene, page: str) -> None:
    scene.options = scene.options._replace(aggressive=True)
    scene.edit(page, status="Cancelled")
    assert scene.sync().applied[0].new == "aborted"
    assert scene.task("Research").status is Status.CANCELED
    scene.edit(page, status="Not Started", priority="High")
    assert len(scene.sync().applied) == 2
    assert (scene.task("Research").status, scene.task("Research").priority) == (Status.READY, -0.8)
    for verb in (None, Verb.BLOCK, Verb.PAUSE):
        scene.clock.advance(hours=1)
        if verb:
            scene.desk.move(verb, scene.task("Research").id, reason="so")
    scene.edit(page, status="Completed")
    assert [each.new for each in scene.sync().applied] == ["completed"]
    task = scene.task("Research")
    assert (task.status, task.lease, task.finished_by) == (Status.DONE, None, "notion")


def test_blocking_and_unblocking_come_through(scene: Scene, page: str) -> None:
    scene.edit(page, status="Blocked")
    scene.sync()
    assert (scene.task("Research").status, scene.task("Research").reason) == (Status.BLOCKED, "set in Notion")
    scene.edit(page, status="Not Started", agent="Chagatai")
    scene.sync()
    assert (scene.task("Research").status, scene.task("Research").assigned_to) == (Status.READY, "writer")


def test_persons_priority_holds_until_a_newer_edit(scene: Scene, page: str) -> None:
    scene.edit(page, priority="Low")
    scene.clock.advance(minutes=2)
    scene.desk.edit(scene.task("Research").id, Edit(priority=-0.9, override=True))
    (skipped,) = scene.sync().skipped
    assert "a person here" in skipped.skip
    assert (scene.task("Research").priority, scene.shown(page)["Priority"]) == (-0.9, "Critical")
    scene.clock.advance(minutes=2)
    scene.edit(page, priority="Low")
    scene.sync()
    task = scene.task("Research")
    assert (task.priority, task.override, scene.shown(page)["Priority"]) == (-0.3, False, "Low")
    scene.desk.edit(task.id, Edit(priority=-0.9, override=True))
    scene.clock.advance(minutes=2)
    scene.edit(page, priority="High")
    assert len(scene.sync().applied) == 1
    assert scene.task("Research").priority == -0.8


def test_deleted_row_blocks_its_task_until_restored(scene: Scene, page: str) -> None:
    scene.notion.human.trash(page)
    (applied,) = scene.sync().applied
    assert applied.kind == "deleted"
    assert (scene.task("Research").status, scene.task("Research").reason) == (Status.BLOCKED, "deleted_in_notion")
    scene.clock.advance(minutes=10)
    assert not scene.sync(polled=True).eventful
    scene.notion.human.restore(page)
    scene.sync(polled=True)
    assert scene.task("Research").status is Status.READY


def test_deleted_row_blocks_a_busy_task_later(scene: Scene, page: str) -> None:
    token = _hold(scene)
    scene.notion.human.trash(page)
    (skipped,) = scene.sync(polled=True).skipped
    assert "in progress" in skipped.skip
    assert scene.sync(polled=True).skipped == ()
    scene.desk.move(Verb.RELEASE, scene.task("Research").id, token=token)
    assert len(scene.sync(polled=True).applied) == 1
    assert scene.task("Research").status is Status.BLOCKED


def test_unlisted_row_with_a_page_is_not_deleted(scene: Scene, page: str) -> None:
    scene.notion.human.trash(page)
    scene.clock.advance(minutes=5)
    scene.notion.human.restore(page)
    scene.notion.faults.query_lag = 60.0
    assert not scene.sync(polled=True).applied
    assert scene.task("Research").status is Status.READY


def test_a_list_that_breaks_off_proves_nothing(scene: Scene, page: str) -> None:
    real = scene.gateway.query
    scene.gateway.query = lambda source, body: {**real(source, body), "results": [], "has_more": True}  # type: ignore[method-assign]
    with pytest.raises(StoreUnavailable, match="broke off"):
        scene.sync()
    assert (scene.task("Research").status, scene.shown(page)["Status"]) == (Status.READY, "Ready")


@pytest.mark.parametrize("column", ["Name", "Status", "Priority", "Agent", "SenderHash"])
def test_renamed_column_is_not_an_empty_one(scene: Scene, page: str, column: str) -> None:
    before, shown = scene.task("Research"), scene.shown(page)
    scene.notion.human.change_columns(scene.database.id, {column: {"name": "Something else"}})
    if column == "Name":
        assert not scene.sync(polled=True).eventful  # the title property may have any name
        return
    for polled in (True, False):
        with pytest.raises(Misconfigured):
            scene.sync(polled=polled)
    assert scene.task("Research") == before
    assert list(scene.shown(page).values()) == list(shown.values())


def test_polled_rows_wait_for_review(scene: Scene) -> None:
    page = scene.row("New", status="Ready", priority="High", agent="Jochi")
    scene.sync(polled=True)
    task = scene.task("New")
    assert (task.status, task.reason, scene.shown(page)["Status"]) == (Status.BACKLOG, "pending_review", "Not Started")
    assert scene.desk.ready(limit=9) == []
    scene.edit(page, status="Ready")
    scene.sync(polled=True)
    assert scene.task("New").status is Status.READY


def test_row_with_a_task_id_is_matched(scene: Scene) -> None:
    scene.add(Draft("USDC earning plan", id="usdc", priority=-0.8, assigned_to="analyst"))
    page = scene.row("Earn USDC", id="usdc")
    report = scene.sync()
    assert [each.kind for each in report.applied] == ["description"]
    shown = scene.shown(page)
    assert (shown["Name"], shown["Priority"], shown["Agent"], shown["Status"]) == (
        "Earn USDC",
        "High",
        "Jochi",
        "Ready",
    )
    copied = scene.row("Earn USDC again", id="usdc")
    scene.sync()
    assert scene.task("Earn USDC").id == "usdc"
    assert scene.shown(copied)["ID"] == copied == scene.task("Earn USDC again").id
    (line,) = [event for event in scene.changes() if event.detail["change_type"] == "properties"]
    assert line.detail["old_value"] == "usdc"


def test_restored_and_new_rows_with_one_id_are_two_tasks(scene: Scene, page: str) -> None:
    scene.edit(page, name="Research")
    scene.notion.human.trash(page)
    scene.sync()
    scene.notion.human.restore(page)
    other = scene.row("Another", id=scene.task("Research").id, status="Ready")
    scene.sync()
    assert scene.task("Research").status is Status.READY
    assert scene.shown(other)["ID"] == scene.task("Another").id != scene.task("Research").id
    assert not scene.sync(polled=True).eventful


def test_changes_here_are_written_to_notion(scene: Scene, page: str) -> None:
    edit = Edit(title="Research it", priority=-0.77, assigned_to="writer")
    scene.desk.edit(scene.task("Research").id, edit)
    report = scene.sync(polled=True)
    assert (report.applied, report.written) == ((), 1)
    shown = scene.shown(page)
    assert (shown["Name"], shown["Priority"], shown["Agent"]) == ("Research it", "High", "Chagatai")
    assert scene.task("Research it").priority == -0.77


def test_a_database_may_have_other_types_and_other_spellings(scene: Scene) -> None:
    schema = kurultai_schema() | {"Agent": {"multi_select": {}}, "Result": {"url": {}}}
    schema |= {"NAME": schema.pop("Name"), "status": {"status": schema.pop("Status")["select"]}}
    made = scene.notion.database(schema)
    scene.options = scene.options._replace(database=made.id)
    said = {
        "NAME": title("Research"),
        "status": {"status": {"name": "Blocked"}},
        "Agent": {"multi_select": [{"name": "Temüjin"}, {"name": "Jochi"}]},
        "SenderHash": text(scene.sender),
    }
    page = scene.notion.page(made.id, said)
    assert scene.sync().status == "success"
    task = scene.task("Research")
    assert (task.status, task.assigned_to) == (Status.BLOCKED, "developer")
    scene.desk.move(Verb.UNBLOCK, task.id)
    (claimed,) = scene.desk.claim("developer", refs=[task.id])
    assert claimed.task.lease is not None
    link = "https://example.test/it"
    scene.desk.move(Verb.DONE, task.id, token=claimed.task.lease.token, artifacts=[link])
    scene.sync()
    shown = scene.shown(page)
    assert (shown["status"], shown["Result"]) == ("Completed", link)
    assert [each["name"] for each in shown["Agent"]] == ["Temüjin", "Jochi"]


def test_concurrent_edit_in_notion_is_not_overwritten(scene: Scene, page: str) -> None:
    """A person edits the row between the sync's read and write."""
    scene.desk.edit(scene.task("Research").id, Edit(priority=-0.3))
    real = scene.gateway.page
    once = [lambda: scene.edit(page, priority="Critical")]

    def quicker(*args: Any, **more: Any) -> Any:
        if once:
            once.pop()()
        return real(*args, **more)

    scene.gateway.page = quicker  # type: ignore[method-assign]
    assert scene.sync().left == 1
    assert scene.shown(page)["Priority"] == "Critical"
    scene.sync()
    assert (scene.task("Research").priority, scene.shown(page)["Priority"]) == (-1.0, "Critical")


def test_notion_wins_conflicts_and_the_loser_is_recorded(scene: Scene, page: str) -> None:
    scene.desk.edit(scene.task("Research").id, Edit(title="Said here", priority=-0.3, assigned_to="writer"))
    scene.edit(page, name="Said there", priority="High", agent="Temüjin")
    assert len(scene.sync().applied) == 3
    task = scene.task("Said there")
    assert (task.priority, task.assigned_to) == (-0.8, "developer")
    old = {event.detail["old_value"] for event in scene.changes() if event.detail["direction"] == "here"}
    assert {"Said here", "0.3", "writer"} <= old


def test_change_during_a_sync_is_not_overwritten(scene: Scene, page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A person changes the task between the decision and its application."""
    scene.edit(page, priority="Critical")
    real = apply.apply

    def spoken_before(desk: Desk, pair: Pair) -> dict[Kind, str]:
        monkeypatch.setattr(apply, "apply", real)
        scene.desk.edit(pair.task.id, Edit(priority=-0.3, override=True))
        return real(desk, pair)

    monkeypatch.setattr(apply, "apply", spoken_before)
    (failed,) = scene.sync().failed
    assert "has changed" in failed.skip
    assert (scene.task("Research").priority, scene.shown(page)["Priority"]) == (-0.3, "Low")
    assert not scene.sync(polled=True).eventful


def test_task_claimed_during_a_sync_stays_with_its_holder(
    scene: Scene, page: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.options = scene.options._replace(aggressive=True)
    real = apply.apply
    tokens = []

    def claimed_before(desk: Desk, pair: Pair) -> dict[Kind, str]:
        monkeypatch.setattr(apply, "apply", real)
        tokens.append(_hold(scene))
        return real(desk, pair)

    for said in ({"status": "Cancelled"}, {"status": "Completed"}, {"agent": "Temüjin"}):
        monkeypatch.setattr(apply, "apply", claimed_before)
        scene.edit(page, **said)
        assert len(scene.sync().failed) == 1
        scene.sync()
        assert scene.shown(page)["Status"] == "In Progress"
        scene.desk.move(Verb.RELEASE, scene.task("Research").id, token=tokens.pop())
        scene.clock.advance(minutes=30)
        scene.sync()
    assert scene.task("Research").assigned_to == "analyst"


# Rows found by the poller


def test_polled_row_is_reviewed_by_router_and_sender(scene: Scene) -> None:
    scene.row("Fix the parser bug", priority="High")
    for _ in range(2):
        scene.sync(polled=True)
    task = scene.task("Fix the parser bug")
    assert (task.status, task.reason, task.assigned_to) == (Status.BACKLOG, "pending_review", None)
    with box_of(scene.desk, "main").fetch() as letters:
        assert [letter_of(each).task.id for each in letters if letter_of(each).task] == [task.id]  # type: ignore[union-attr]
    with sender_box(scene.desk, ANN).fetch() as notes:
        (note,) = notes
    assert "accept Fix the parser bug" in note.description
    assert scene.desk.claim("developer") == []


@pytest.mark.parametrize(("said", "status"), [("Accept {}", Status.READY), ("reject {}", Status.CANCELED)])
def test_a_review_is_answered_in_the_chat(scene: Scene, said: str, status: Status) -> None:
    scene.row("Fix the parser bug")
    scene.sync(polled=True)
    session = chosen_session(scene.desk, ANN)
    reply = session.say(said.format("Fix the parser bug"))
    assert reply.command is not None
    assert scene.task("Fix the parser bug").status is status


def test_an_acceptance_is_undone_like_any_command(scene: Scene) -> None:
    scene.row("Fix the parser bug")
    scene.sync(polled=True)
    session = chosen_session(scene.desk, ANN)
    session.say("accept Fix the parser bug")
    session.say("Undo")
    assert scene.task("Fix the parser bug").status is Status.BACKLOG


def test_accepted_row_keeps_its_named_agent(scene: Scene) -> None:
    scene.row("Fix the parser bug", agent="Jochi")
    scene.sync(polled=True)
    chosen_session(scene.desk, ANN).say("accept Fix the parser bug")
    assert scene.task("Fix the parser bug").assigned_to == "analyst"


@pytest.mark.parametrize("polled", [True, False])
def test_a_sync_that_fails_leaves_a_record_with_the_error(scene: Scene, *, polled: bool) -> None:
    scene.notion.faults.next("unavailable", times=50)
    with pytest.raises(StoreError) as caught:
        scene.sync(polled=polled)
    (event,) = [event for event in scene.desk.events() if event.verb == "sync"]
    assert (event.detail["status"], event.detail["error"]) == ("failed", caught.value.message)
    assert event.detail["sync_type"] == ("notion" if polled else "manual")
    scene.notion.faults.clear()
    assert scene.sync().status == "success"
