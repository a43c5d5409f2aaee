"""`dibs.open` and the verbs of a Desk."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

import dibs
from dibs import Status

if TYPE_CHECKING:
    from pathlib import Path

    from support.clock import Clock


def held(desk: dibs.Desk, id: str) -> str:  # noqa: A002
    desk.add("A task", id=id)
    claim = desk.claim(id)
    assert claim is not None
    return claim.token


def test_url_that_does_not_exist_is_made(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/tasks.db"
    with dibs.open(url) as desk:
        desk.add("A task", id="a")
    with dibs.open(url) as desk:
        assert desk.get("a").title == "A task"


def test_project_is_found_from_a_folder_below(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    below = tmp_path / "src" / "deep"
    below.mkdir(parents=True)
    (tmp_path / ".dibs").mkdir()
    monkeypatch.delenv("DIBS_STORE", raising=False)
    with dibs.open(f"sqlite:///{tmp_path}/.dibs/dibs.db") as desk:
        desk.add("A task", id="a")
    monkeypatch.chdir(below)
    with dibs.open() as desk:
        assert desk.get("a").title == "A task"


def test_missing_project_suggests_init(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DIBS_STORE", raising=False)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(dibs.NoStore, match="'dibs init' makes one here"):
        dibs.open()


def test_environment_names_store_scope_and_agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"sqlite:///{tmp_path}/tasks.db"
    dibs.open(url).close()
    for name, value in (("DIBS_STORE", url), ("DIBS_SCOPE", "team"), ("DIBS_AGENT", "cleo")):
        monkeypatch.setenv(name, value)
    with dibs.open() as desk:
        assert (desk.scope, desk.agent) == ("team", "cleo")
    with dibs.open(scope="other", agent="bob") as desk:
        assert (desk.scope, desk.agent) == ("other", "bob")


def test_each_memory_store_is_separate() -> None:
    with dibs.open(":memory:") as one, dibs.open(":memory:") as two:
        one.add("A task", id="a")
        assert [task.id for task in one.list()] == ["a"]
        assert two.list() == []


def test_internal_scope_is_refused() -> None:
    with pytest.raises(dibs.InvalidInput, match="cannot be a scope"):
        dibs.open(":memory:", scope=".mail.ann")


def test_add_links_both_ways(desk: dibs.Desk) -> None:
    desk.add("Last", id="last")
    desk.add("First", id="first")
    middle = desk.add("Middle", blocked_by=["first"], blocks=["last"])
    assert [task.id for task in desk.ready()] == ["first"]
    assert {(link.task, link.on) for link in desk.graph().links} == {(middle.id, "first"), ("last", middle.id)}


def test_add_takes_every_field(desk: dibs.Desk, clock: Clock) -> None:
    desk.add("Parent", id="parent")
    later = clock.time + timedelta(hours=1)
    task = desk.add(
        "Child", id="child", description="d", backlog=True, priority=1, service_class="expedite", category="c",
        deliverable="code", steps=["one", "two"], spec_ref="s", ref="r", parent="parent", requires=["gpu"],
        assigned_to="bob", not_before=later, max_retries=2, extra={"k": 1},
    )  # fmt: skip
    assert (task.status, task.service_class, task.steps) == (Status.BACKLOG, "expedite", ("one", "two"))
    assert (task.parent, task.requires, task.assigned_to) == ("parent", ("gpu",), "bob")
    assert (task.not_before, task.max_retries, task.extra) == (later, 2, {"k": 1})
    assert (task.category, task.deliverable, task.spec_ref, task.ref) == ("c", "code", "s", "r")


def test_list_filters(desk: dibs.Desk) -> None:
    desk.add("Red paint", id="a", category="paint")
    desk.add("Blue", id="b")
    desk.cancel("b")
    assert [task.id for task in desk.list(status="ready")] == ["a"]
    assert [task.id for task in desk.list(status=[Status.CANCELED, "done"])] == ["b"]
    assert [task.id for task in desk.list(text="paint")] == ["a"]
    assert [task.id for task in desk.list(only=dibs.Filter(category="paint"), limit=1)] == ["a"]
    with pytest.raises(dibs.InvalidInput, match="'nowhere' is none of backlog, ready"):
        desk.list(status="nowhere")


def test_edit_changes_only_given_fields(desk: dibs.Desk) -> None:
    desk.add("Old", id="a", category="c", steps=["one"])
    task = desk.edit("a", title="New", category=None)
    assert (task.title, task.category, task.steps) == ("New", None, ("one",))


def test_plan_is_applied_from_both_formats(desk: dibs.Desk) -> None:
    changes = desk.plan("tasks:\n  - {id: a, title: A}\n  - {id: b, title: B, deps: [a]}\n")
    assert [task.id for task in changes.insert] == ["a", "b"]
    assert desk.plan('{"id": "c", "title": "C"}', dry_run=True).insert
    assert [task.id for task in desk.ready()] == ["a"]


def test_verbs_lead_to_their_statuses(desk: dibs.Desk) -> None:
    assert desk.done("a", held(desk, "a"), result={"n": 1}, artifacts=["x"]).task.status is Status.DONE
    assert desk.fail("b", held(desk, "b"), reason="no").task.status is Status.READY
    assert desk.block("c", held(desk, "c"), reason="no key").task.status is Status.BLOCKED
    assert desk.unblock("c").task.status is Status.READY
    assert desk.review("d", held(desk, "d"), result="look").task.status is Status.REVIEW
    assert desk.rework("d", reason="again").task.status is Status.READY
    assert desk.review("e", held(desk, "e")).task.status is Status.REVIEW
    assert desk.approve("e").task.status is Status.DONE
    assert desk.release("f", held(desk, "f")).task.status is Status.READY
    assert desk.pause("f").task.status is Status.PAUSED
    assert desk.resume("f").task.status is Status.READY
    assert desk.cancel("f", reason="no need").task.status is Status.CANCELED
    assert desk.reopen("f").task.status is Status.READY


def test_done_names_the_tasks_it_unblocked(desk: dibs.Desk) -> None:
    token = held(desk, "first")
    desk.add("Second", id="second", blocked_by=["first"])
    assert desk.done("first", token).unblocked == ("second",)


def test_failed_task_waits_for_its_retry(desk: dibs.Desk, clock: Clock) -> None:
    desk.fail("a", held(desk, "a"), reason="no", retry_in="5m")
    assert desk.ready() == []
    clock.advance(minutes=5)
    assert [task.id for task in desk.ready()] == ["a"]


def test_links_can_be_added_and_removed(desk: dibs.Desk) -> None:
    for name in "ab":
        desk.add(name, id=name)
    desk.link("b", "a", "feeds_into")
    assert [(link.task, link.on, link.kind) for link in desk.links("a")] == [("b", "a", "feeds_into")]
    with pytest.raises(dibs.CycleDetected):
        desk.link("a", "b")
    desk.unlink("b", "a", "feeds_into")
    assert desk.links("a") == []


def test_events_and_comments_are_read_in_order(desk: dibs.Desk) -> None:
    desk.add("A", id="a")
    desk.comment("a", "look here")
    events = desk.events("a")
    assert [event.verb for event in events] == ["add", "comment"]
    assert [event.verb for event in desk.events(after=events[0].seq)] == ["comment"]


def test_scopes_and_counts(desk: dibs.Desk) -> None:
    desk.add("A", id="a")
    assert desk.scopes() == ["default"]
    assert desk.counts().claimable == 1


@pytest.mark.parametrize("lease", ["20m", 1200, timedelta(minutes=20)])
def test_lease_is_text_seconds_or_a_timedelta(desk: dibs.Desk, clock: Clock, lease: str | float | timedelta) -> None:
    desk.add("A", id="a")
    claim = desk.claim(lease=lease)
    assert claim is not None
    assert claim.task.lease is not None
    assert claim.task.lease.expires_at == clock.time + timedelta(minutes=20)


def test_settings_are_changed_together(desk: dibs.Desk) -> None:
    desk.configure({"poll": 60, "notify": True})
    assert desk.configure({"notify": None}) == desk.settings() == {"poll": 60}


def test_similar_tasks_are_found_by_vector(desk: dibs.Desk) -> None:
    for name in "ab":
        desk.add(name, id=name)
    desk.keep_vectors({"a": [1.0, 0.0], "b": [0.0, 1.0]})
    found = desk.similar([0.9, 0.1], limit=1)
    assert [(task.id, found.by) for task, _score in found.found] == [("a", "vector")]
    assert set(desk.vectors()) == {"a", "b"}


def test_store_without_settings_refuses_them(tmp_path: Path) -> None:
    with dibs.open(f"vault:///{tmp_path}/vault") as desk, pytest.raises(dibs.Unsupported, match="keeps no settings"):
        desk.settings()


@pytest.mark.parametrize("name", ["labels", "steps", "requires", "blocked_by", "blocks"])
def test_one_text_in_place_of_a_list_is_refused(desk: dibs.Desk, name: str) -> None:
    desk.add("A", id="a")
    given: dict[str, Any] = {name: "a"}
    with pytest.raises(dibs.InvalidInput, match=rf"write {name}=\['a'\]"):
        desk.add("B", **given)
    if not name.startswith("block"):
        with pytest.raises(dibs.InvalidInput, match=name):
            desk.edit("a", **given)
    assert [task.title for task in desk.list()] == ["A"]


@pytest.mark.parametrize("given", [None, 7, [7], ["web", None]])
def test_a_list_holds_texts(desk: dibs.Desk, given: Any) -> None:
    with pytest.raises(dibs.InvalidInput, match="'labels' is a list of texts"):
        desk.add("A", labels=given)
    with pytest.raises(dibs.InvalidInput, match="'only' is a Filter"):
        desk.claim(only=given)
    assert desk.list() == []


def test_capabilities_artifacts_and_labels_of_a_filter_are_lists(desk: dibs.Desk) -> None:
    desk.add("A", id="a")
    labels: Any = "web"
    for ask in (desk.claim, desk.ready, desk.list):
        with pytest.raises(dibs.InvalidInput, match="labels"):
            ask(only=dibs.Filter(labels=labels))
    with pytest.raises(dibs.InvalidInput, match="can"):
        desk.claim(can="gpu")
    claim = desk.claim()
    assert claim is not None
    with pytest.raises(dibs.InvalidInput, match="artifacts"):
        claim.done(artifacts="a.txt")
    assert claim.done(artifacts=["a.txt"]) is None
