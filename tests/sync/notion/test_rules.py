"""What Notion may ask, and what it gets: nobody at work is disturbed, and what is refused is told and put right."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from dibs.core.errors import Misconfigured, StoreUnavailable
from dibs.core.lifecycle import Verb
from dibs.core.task import Draft, Edit, Link, Status
from dibs.lab.emulator import kurultai_schema
from dibs.sync.notion import apply
from support.notion import text, title

if TYPE_CHECKING:
    from dibs.desk import Desk
    from dibs.sync.notion.reconcile import Kind, Pair
    from sync.notion.scene import Scene


@pytest.fixture
def page(scene: Scene) -> str:
    """A row that both sides agree on."""
    made = scene.row("Research", status="Ready", priority="Medium", agent="Jochi")
    scene.sync()
    return made


def _hold(scene: Scene) -> str:
    (claimed,) = scene.desk.claim("analyst", refs=[scene.task("Research").id], lease=timedelta(days=9))
    assert claimed.task.lease is not None
    return claimed.task.lease.token


def _refused(scene: Scene, page: str, **said: Any) -> str:
    """Ask for it in Notion: it is refused, told once, and put right there. The value is why."""
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


def test_work_that_goes_on_is_not_interrupted(scene: Scene, page: str) -> None:
    token = _hold(scene)
    scene.sync()
    assert scene.shown(page)["Status"] == "In Progress"
    for word in ("Blocked", "Completed", "Cancelled", "Not Started"):
        assert "being worked on" in _refused(scene, page, status=word)
    assert "being worked on" in _refused(scene, page, agent="Temüjin")
    scene.edit(page, priority="Critical", name="Research it well")
    assert len(scene.sync().applied) == 2
    task = scene.task("Research it well")
    assert (task.priority, task.title) == (-1.0, "Research it well")
    scene.desk.renew(task.id, token)


def test_what_is_completed_is_never_reverted(scene: Scene, page: str) -> None:
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
    assert "none of the statuses" in _refused(scene, page, status="Someday")
    assert "none of the priorities" in _refused(scene, page, priority="Odd")
    assert "no agent" in _refused(scene, page, agent="Somebody Else")
    assert "needs a name" in _refused(scene, page, name="")


def test_an_aggressive_sync_completes_and_cancels_what_nobody_is_at(scene: Scene, page: str) -> None:
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


def test_a_person_s_word_here_holds_until_notion_changes_after_it(scene: Scene, page: str) -> None:
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


def test_what_is_deleted_in_notion_is_blocked_and_comes_back_with_its_row(scene: Scene, page: str) -> None:
    scene.notion.human.trash(page)
    (applied,) = scene.sync().applied
    assert applied.kind == "deleted"
    assert (scene.task("Research").status, scene.task("Research").reason) == (Status.BLOCKED, "deleted_in_notion")
    scene.clock.advance(minutes=10)
    assert not scene.sync(polled=True).eventful
    scene.notion.human.restore(page)
    scene.sync(polled=True)
    assert scene.task("Research").status is Status.READY


def test_what_is_deleted_while_it_is_worked_on_is_blocked_when_it_is_idle(scene: Scene, page: str) -> None:
    token = _hold(scene)
    scene.notion.human.trash(page)
    (skipped,) = scene.sync(polled=True).skipped
    assert "being worked on" in skipped.skip
    assert scene.sync(polled=True).skipped == ()
    scene.desk.move(Verb.RELEASE, scene.task("Research").id, token=token)
    assert len(scene.sync(polled=True).applied) == 1
    assert scene.task("Research").status is Status.BLOCKED


def test_a_row_that_no_list_shows_is_not_deleted_while_its_page_is_there(scene: Scene, page: str) -> None:
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
def test_a_column_that_was_renamed_is_not_taken_for_an_empty_one(scene: Scene, page: str, column: str) -> None:
    before, shown = scene.task("Research"), scene.shown(page)
    scene.notion.human.change_columns(scene.database.id, {column: {"name": "Something else"}})
    if column == "Name":
        assert not scene.sync(polled=True).eventful  # the title is the title, whatever it is called
        return
    for polled in (True, False):
        with pytest.raises(Misconfigured):
            scene.sync(polled=polled)
    assert scene.task("Research") == before
    assert list(scene.shown(page).values()) == list(shown.values())


def test_rows_that_the_poller_finds_wait_for_somebody_to_look_at_them(scene: Scene) -> None:
    page = scene.row("New", status="Ready", priority="High", agent="Jochi")
    scene.sync(polled=True)
    task = scene.task("New")
    assert (task.status, task.reason, scene.shown(page)["Status"]) == (Status.BACKLOG, "pending_review", "Not Started")
    assert scene.desk.ready(limit=9) == []
    scene.edit(page, status="Ready")
    scene.sync(polled=True)
    assert scene.task("New").status is Status.READY


def test_a_row_with_the_id_of_a_task_is_its_row(scene: Scene) -> None:
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
    assert scene.shown(copied)["ID"] == copied.replace("-", "") == scene.task("Earn USDC again").id
    (line,) = [event for event in scene.changes() if event.detail["change_type"] == "properties"]
    assert line.detail["old_value"] == "usdc"


def test_a_row_that_is_back_and_a_new_one_with_the_same_id_are_two_tasks(scene: Scene, page: str) -> None:
    scene.edit(page, name="Research")
    scene.notion.human.trash(page)
    scene.sync()
    scene.notion.human.restore(page)
    other = scene.row("Another", id=scene.task("Research").id, status="Ready")
    scene.sync()
    assert scene.task("Research").status is Status.READY
    assert scene.shown(other)["ID"] == scene.task("Another").id != scene.task("Research").id
    assert not scene.sync(polled=True).eventful


def test_what_changed_here_is_told_to_notion(scene: Scene, page: str) -> None:
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


def test_whoever_is_quicker_in_notion_is_not_written_over(scene: Scene, page: str) -> None:
    """A person edits the row after the sync has read it and before it writes."""
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


def test_where_both_sides_have_changed_it_notion_counts_and_what_was_said_here_is_on_record(
    scene: Scene, page: str
) -> None:
    scene.desk.edit(scene.task("Research").id, Edit(title="Said here", priority=-0.3, assigned_to="writer"))
    scene.edit(page, name="Said there", priority="High", agent="Temüjin")
    assert len(scene.sync().applied) == 3
    task = scene.task("Said there")
    assert (task.priority, task.assigned_to) == (-0.8, "developer")
    old = {event.detail["old_value"] for event in scene.changes() if event.detail["direction"] == "here"}
    assert {"Said here", "0.3", "writer"} <= old


def test_what_is_said_here_while_a_sync_decides_is_not_written_over(
    scene: Scene, page: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows are read, and what to do is decided; then somebody speaks, and then it would be done."""
    scene.edit(page, priority="Critical")
    real = apply.apply

    def spoken_before(desk: Desk, pair: Pair) -> dict[Kind, str]:
        monkeypatch.setattr(apply, "apply", real)
        scene.desk.edit(pair.task.id, Edit(priority=-0.3, override=True))
        return real(desk, pair)

    monkeypatch.setattr(apply, "apply", spoken_before)
    (failed,) = scene.sync().failed
    assert "changed meanwhile" in failed.skip
    assert (scene.task("Research").priority, scene.shown(page)["Priority"]) == (-0.3, "Low")
    assert not scene.sync(polled=True).eventful


def test_a_task_that_is_claimed_while_a_sync_decides_stays_with_its_holder(
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
