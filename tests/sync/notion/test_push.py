"""Tasks made here get rows in Notion, their dependencies relations; states and results follow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from dibs.core.lifecycle import Verb
from dibs.core.task import Draft, Link, LinkKind, Status
from dibs.stores.port import Query
from dibs.sync.notion.reconcile import page_of
from dibs.sync.notion.schedule import HOURLY

if TYPE_CHECKING:
    from sync.notion.scene import Scene


@pytest.fixture(autouse=True)
def pushing(scene: Scene) -> None:
    scene.options = scene.options._replace(push=True)


def rows(scene: Scene) -> dict[str, dict[str, Any]]:
    """Return the rows as a person sees them, by name; relations by the names of their rows."""
    found = scene.gateway.query(scene.gateway.source_of(scene.database.id), {"page_size": 100})["results"]
    names = {page["id"]: scene.shown(page["id"])["Name"] for page in found}
    return {
        names[page["id"]]: scene.shown(page["id"])
        | {"Depends on": sorted(names[each["id"]] for each in page["properties"]["Depends on"]["relation"])}
        for page in found
    }


def plan(scene: Scene) -> None:
    scene.add(
        Draft("Research", id="research", priority=-1.0, assigned_to="analyst"),
        Draft("Strategy", id="strategy", priority=-0.5),
        Draft("Landing page", id="page", priority=-0.5),
    )
    scene.desk.link(
        [
            Link("strategy", "research"),
            Link("page", "strategy", LinkKind.FEEDS_INTO),
            Link("page", "research", LinkKind.PARALLEL_OK),
        ]
    )


def finish(scene: Scene, task: str, **told: Any) -> None:
    (claimed,) = scene.desk.claim("analyst", refs=[task])
    assert claimed.task.lease is not None
    scene.desk.move(Verb.DONE, task, token=claimed.task.lease.token, **told)


@pytest.mark.parametrize("polled", [False, True])
def test_task_without_a_row_gets_one_with_its_dependencies(scene: Scene, polled: bool) -> None:
    plan(scene)
    assert scene.sync(polled=polled).added == 3
    shown = rows(scene)
    assert {name: row["Depends on"] for name, row in shown.items()} == {
        "Research": [], "Strategy": ["Research"], "Landing page": ["Strategy"],
    }  # fmt: skip
    research = shown["Research"]
    assert (research["ID"], research["Status"], research["Priority"], research["Agent"], research["SenderHash"]) == (
        "research", "Ready", "Critical", "Jochi", scene.sender,
    )  # fmt: skip
    assert shown["Strategy"]["Status"] == "Not Started"
    assert scene.sync(polled=polled)._replace(rows=0, outlook=None).eventful is False


def test_status_result_and_new_dependency_flow_back(scene: Scene) -> None:
    plan(scene)
    scene.sync()
    finish(scene, "research", result="three players")
    scene.add(Draft("Budget", id="budget"))
    scene.desk.link([Link("strategy", "budget")])
    scene.sync(polled=True)
    shown = rows(scene)
    assert (shown["Research"]["Status"], shown["Research"]["Result"]) == ("Completed", "three players")
    assert shown["Strategy"]["Depends on"] == ["Budget", "Research"]


def test_removed_relation_is_restored(scene: Scene) -> None:
    plan(scene)
    scene.sync()
    scene.notion.human.edit(page_of(scene.task("Strategy")) or "", {"Depends on": {"relation": []}})
    scene.sync()
    assert rows(scene)["Strategy"]["Depends on"] == ["Research"]


def test_overwritten_relation_is_recorded(scene: Scene) -> None:
    plan(scene)
    scene.sync()
    other = page_of(scene.task("Landing page")) or ""
    scene.notion.human.edit(page_of(scene.task("Strategy")) or "", {"Depends on": {"relation": [{"id": other}]}})
    scene.sync()
    told = scene.changes()[-1]
    assert (told.task, told.detail["direction"], told.detail["old_value"]) == ("strategy", "to_notion", other)


def test_row_of_a_pushed_task_steers_it(scene: Scene) -> None:
    plan(scene)
    scene.sync()
    scene.edit(page_of(scene.task("Strategy")) or "", priority="Critical", agent="Chagatai")
    scene.sync(polled=True)
    assert (scene.task("Strategy").priority, scene.task("Strategy").assigned_to) == (-1.0, "writer")


def test_deleted_row_is_not_added_again(scene: Scene) -> None:
    plan(scene)
    scene.sync()
    scene.notion.human.trash(page_of(scene.task("Landing page")) or "")
    scene.clock.advance(minutes=5)
    scene.sync()
    assert scene.task("Landing page").status is Status.BLOCKED
    assert scene.sync().added == 0
    assert sorted(rows(scene)) == ["Research", "Strategy"]


def test_result_of_a_quick_task_is_shown_too(scene: Scene) -> None:
    plan(scene)
    finish(scene, "research", result="three players")
    scene.desk.move(Verb.CANCEL, "page")
    scene.sync()
    shown = rows(scene)
    assert sorted(shown) == ["Research", "Strategy"]
    assert shown["Research"]["Result"] == "three players"
    scene.add(Draft("Old", id="old"))
    finish(scene, "old")
    scene.clock.advance(hours=25)
    assert scene.sync().added == 0


@pytest.mark.parametrize("fault", ["unavailable", "unavailable_after_commit", "drop_after_commit"])
def test_lost_answer_to_a_new_row_makes_no_second_one(scene: Scene, fault: str) -> None:
    scene.add(Draft("Research", id="research"))
    scene.notion.faults.next(fault, method="POST", path="/pages")
    report = scene.sync()
    assert (report.added, report.unwritten, report.status) == (0, 1, "failed")
    assert scene.sync().added == 0  # a list may not show the row yet
    scene.clock.advance(minutes=5)
    scene.sync()
    assert sorted(rows(scene)) == ["Research"]
    assert page_of(scene.task("Research")) is not None
    assert len(scene.desk.find(Query(scene.sender))) == 1


def test_pushes_do_not_use_up_the_polls_of_an_hour(scene: Scene) -> None:
    for number in range(HOURLY + 3):
        scene.add(Draft(f"Task {number}", id=f"t{number}"))
        assert scene.sync(polled=True).added == 1
        scene.clock.advance(seconds=60)


def test_preview_counts_rows_and_adds_none(scene: Scene) -> None:
    plan(scene)
    assert scene.syncer().preview().added == 3
    assert rows(scene) == {}
