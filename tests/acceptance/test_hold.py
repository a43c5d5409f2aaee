"""claim, renew, release: take a task, keep it, release it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from dibs.core.task import Actor, Draft
from dibs.stores.sqlite.store import SqliteStore

if TYPE_CHECKING:
    from support.cli import Cli, Clock

_UUID4 = r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"


def test_claim_gives_a_worker_all_it_needs(cli: Cli) -> None:
    cli.add("first")
    cli.ok("done", "first", "--token", cli.claim("first"), "--result", '{"port": 80}', "--artifact", "notes.md")
    cli.ok("add", "Second job", "--id", "second", "-d", "What to do.", "-s", "One step", "--blocked-by", "first")
    said = cli.ok("claim", "--agent", "bob", "--lease", "45m")
    assert said.startswith("second  Second job\n")
    for words in ("bob", "attempt 1", "45m", "What to do.", "1. One step", "first", '{"port": 80}', "notes.md"):
        assert words in said
    (token,) = set(re.findall(_UUID4, said))
    assert f"dibs done second --token {token}" in said
    assert cli.ok("done", "second", "--token", token) == "done second\n"


def test_claim_in_json_gives_task_token_and_inputs(cli: Cli) -> None:
    cli.add("first")
    cli.ok("done", "first", "--token", cli.claim("first"), "--note", "it works", "--artifact", "a.md")
    cli.add("second", "--blocked-by", "first")
    claimed = cli.json("claim", "--agent", "bob", "--run", "r7", "--lease", "1h30m")
    assert re.fullmatch(_UUID4, claimed["token"])
    assert claimed["task"]["status"] == "active"
    assert claimed["task"]["lease"] == {
        "attempt": 1,
        "agent": "bob",
        "run": "r7",
        "holder": "agent",
        "claimed_at": "2026-01-01T12:00:00Z",
        "expires_at": "2026-01-01T13:30:00Z",
    }
    assert claimed["inputs"] == [{"id": "first", "title": "first", "result": "it works", "artifacts": ["a.md"]}]


def test_named_task_is_claimed(cli: Cli) -> None:
    cli.add("urgent", "-p", "0")
    cli.add("wanted")
    assert cli.json("claim", "wan")["task"]["id"] == "wanted"


def test_claim_waits_no_longer_than_asked(cli: Cli) -> None:
    told = cli.refuses(4, "NOTHING_READY", "claim", "--wait", "1s")
    assert "no open tasks" in told.message
    cli.add("a")
    assert cli.json("claim", "--wait", "1h")["task"]["id"] == "a"
    cli.refuses(2, "INVALID_INPUT", "claim", "a", "--wait", "1s")


def test_claim_takes_several_tasks_at_once(cli: Cli) -> None:
    for name in "abcd":
        cli.add(name)
    assert [one["task"]["id"] for one in cli.json("claim", "c", "a")] == ["c", "a"]
    assert [one["task"]["id"] for one in cli.json("claim", "--count", "5")] == ["b", "d"]
    assert len({one["lease"]["attempt"] for one in cli.json("list")}) == 1


def test_count_one_still_prints_a_list(cli: Cli) -> None:
    cli.add("job")
    assert len(cli.json("claim", "--count", "1")) == 1


def test_named_tasks_are_claimed_all_or_none(cli: Cli) -> None:
    cli.add("free")
    cli.add("held")
    cli.ok("claim", "held", "--agent", "bob")
    told = cli.refuses(4, "HELD", "claim", "free", "held")
    assert told.holder == "bob"
    cli.refuses(3, "NOT_FOUND", "claim", "free", "ghost")
    assert cli.ids("ready") == ["free"]


def test_task_named_twice_is_refused(cli: Cli) -> None:
    cli.add("parser")
    cli.refuses(2, "INVALID_INPUT", "claim", "parser", "parser")
    cli.refuses(2, "INVALID_INPUT", "claim", "pars", "parser")
    cli.refuses(2, "INVALID_INPUT", "claim", "pa", "par")


@pytest.mark.parametrize(
    ("lease", "until"),
    [
        ("20m", "12:20:00"),
        ("90", "12:01:30"),
        ("1.5h", "13:30:00"),
        ("1h30m", "13:30:00"),
        ("1s", "12:00:01"),
    ],
)
def test_lease_lasts_as_long_as_requested(lease: str, until: str, cli: Cli) -> None:
    cli.add("job")
    assert cli.json("claim", "--lease", lease)["task"]["lease"]["expires_at"] == f"2026-01-01T{until}Z"


def test_default_lease_is_twenty_minutes(cli: Cli) -> None:
    cli.add("job")
    assert cli.json("claim")["task"]["lease"]["expires_at"] == "2026-01-01T12:20:00Z"


@pytest.mark.parametrize(
    "lease", ["0", "0s", "0.5s", "-5m", "31d", "9999999999d", "99999999999999999w", "soon", "", "5x", "1e3"]
)
@pytest.mark.parametrize("verb", ["claim", "renew"])
def test_invalid_lease_is_refused(verb: str, lease: str, cli: Cli) -> None:
    cli.add("job")
    held = () if verb == "claim" else ("job", "--token", cli.claim("job"))
    cli.refuses(2, "INVALID_INPUT", verb, *held, f"--lease={lease}")


def test_held_task_is_not_claimable(cli: Cli) -> None:
    cli.add("job")
    cli.ok("claim", "job", "--agent", "bob", "--lease", "10m")
    told = cli.refuses(4, "HELD", "claim", "job", "--agent", "bob")
    assert told.holder == "bob"
    assert told.retry_after_ms == 600_000
    assert "10m" in told.message
    assert "force" not in told.message


def test_expired_task_is_claimable_and_late_finish_is_rejected(cli: Cli, clock: Clock) -> None:
    cli.add("job")
    late = cli.claim("--agent", "bob", "--lease", "5m")
    clock.advance(minutes=5)
    cli.refuses(5, "LOST_LOCK", "done", "job", "--token", late)
    cli.refuses(5, "LOST_LOCK", "renew", "job", "--token", late)
    again = cli.json("claim", "--agent", "carl")
    assert again["task"]["attempt"] == 2
    told = cli.refuses(5, "LOST_LOCK", "done", "job", "--token", late)
    assert told.holder == "carl"
    assert cli.ok("done", "job", "--token", again["token"]) == "done job\n"


def test_capabilities_and_assignment_are_respected(cli: Cli) -> None:
    cli.add("gpu", "--requires", "gpu", "--requires", "docker")
    cli.add("bobs", "--assign", "bob")
    assert "docker" in cli.refuses(4, "NOT_FOR_YOU", "claim", "gpu", "--can", "gpu").message
    assert "bob" in cli.refuses(4, "NOT_FOR_YOU", "claim", "bobs").message
    assert cli.json("claim", "--agent", "bob")["task"]["id"] == "bobs"
    assert cli.json("claim", "--can", "gpu", "--can", "docker")["task"]["id"] == "gpu"


def test_waiting_task_is_not_claimable(cli: Cli) -> None:
    cli.add("first")
    cli.add("second", "--blocked-by", "first")
    cli.add("later", "--not-before", "2026-01-01T12:10:00Z")
    assert "dibs show second" in cli.refuses(4, "WAITING", "claim", "second").message
    told = cli.refuses(4, "WAITING", "claim", "later")
    assert told.retry_after_ms == 600_000


@pytest.mark.parametrize("how", ["block", "pause", "cancel"])
def test_task_set_aside_is_not_claimable(how: str, cli: Cli) -> None:
    cli.add("job")
    cli.ok(how, "job", "--reason", "because of reasons")
    cli.refuses(4, "ILLEGAL_MOVE", "claim", "job")


def test_claim_without_any_task_reports_it(cli: Cli) -> None:
    told = cli.refuses(4, "NOTHING_READY", "claim")
    assert told.retry_after_ms is None
    assert "dibs list" in told.message


def test_claim_reports_that_other_agents_hold_the_tasks(cli: Cli) -> None:
    cli.add("first")
    cli.add("second", "--blocked-by", "first")
    cli.ok("claim", "--agent", "bob")
    told = cli.refuses(4, "NOTHING_READY", "claim")
    assert "1 waiting" in told.message
    assert "1 being worked on" in told.message
    assert told.retry_after_ms is not None
    assert told.retry_after_ms > 0


def test_claim_reports_a_missing_capability(cli: Cli) -> None:
    cli.add("job", "--requires", "gpu")
    assert "--can" in cli.refuses(4, "NOTHING_READY", "claim").message


def test_claim_reports_when_to_retry(cli: Cli) -> None:
    cli.add("later", "--not-before", "2026-01-01T12:10:00Z")
    told = cli.refuses(4, "NOTHING_READY", "claim")
    assert "no open tasks" not in told.message
    assert told.retry_after_ms is not None
    assert 0 < told.retry_after_ms <= 600_000


@pytest.mark.parametrize("how", ["block", "pause"])
def test_claim_without_ready_tasks_never_reports_all_done(how: str, cli: Cli) -> None:
    cli.add("job")
    cli.ok(how, "job", "--reason", "no key")
    assert "no open tasks" not in cli.refuses(4, "NOTHING_READY", "claim").message


def test_person_holds_a_task_without_a_time_limit(cli: Cli, clock: Clock) -> None:
    cli.add("job")
    said = cli.ok("claim", "job", "--human", "--agent", "ann")
    assert "no time limit" in said
    clock.advance(days=400)
    told = cli.refuses(4, "HELD", "claim", "job", "--agent", "bob")
    assert told.holder == "ann"
    assert "held by ann" in cli.ok("list")
    cli.refuses(4, "NOTHING_READY", "claim", "--agent", "bob")


def test_person_may_claim_assigned_but_not_held_tasks(cli: Cli) -> None:
    cli.add("bobs", "--assign", "bob", "--requires", "gpu")
    cli.add("held")
    cli.ok("claim", "held", "--agent", "bob")
    assert cli.json("claim", "bobs", "--human")["task"]["lease"]["holder"] == "human"
    cli.refuses(4, "HELD", "claim", "held", "--human")


def test_forced_takeover_by_a_person_is_logged(cli: Cli) -> None:
    cli.add("job")
    lost = cli.claim("job", "--agent", "bob")
    cli.ok("claim", "job", "--human", "--force", "--agent", "ann")
    cli.refuses(5, "LOST_LOCK", "done", "job", "--token", lost)
    taken = [event for event in cli.json("log", "job") if event.get("detail", {}).get("forced")]
    assert [(event["agent"], event["detail"]["taken_from"]) for event in taken] == [("ann", "bob")]


def test_only_a_person_may_use_force(cli: Cli) -> None:
    cli.add("job")
    cli.refuses(2, "INVALID_INPUT", "claim", "job", "--force")


def test_person_must_name_the_task(cli: Cli) -> None:
    cli.add("job")
    cli.refuses(2, "INVALID_INPUT", "claim", "--human")


def test_export_prints_a_line_for_the_shell(cli: Cli) -> None:
    with SqliteStore(str(cli.store)) as store:  # as an older dibs or an import left it
        store.add("default", [Draft("Odd name", "it's$odd")], [], Actor("ann"))
    said = cli.ok("claim", "--export")
    assert said.startswith("export DIBS_TASK_ID=")
    assert said.count("\n") == 1


def test_export_prints_only_one_task(cli: Cli) -> None:
    """A second line would overwrite the first, and its token would be lost."""
    cli.add("a")
    cli.add("b")
    for words in (("a", "b"), ("--count", "2")):
        ran = cli("claim", *words, "--export")
        assert (ran.status, ran.out) == (2, "(exit 2)\n"), "what a shell evaluates fails as well"
        assert "--export is for one task" in ran.err
    assert cli.ids("ready") == ["a", "b"]


def test_export_is_not_json(cli: Cli) -> None:
    cli.add("job")
    ran = cli("claim", "--export", "--json")
    assert ran.status == 2
    assert ran.error.code == "INVALID_INPUT"
    assert cli.ids("ready") == ["job"]


def test_claim_from_any_scope_names_the_scope(cli: Cli) -> None:
    cli.add("north-job", "--scope", "north", "-p", "1")
    cli.add("south-job", "--scope", "south", "-p", "0")
    assert cli.json("claim", "--any-scope")["task"]["scope"] == "south"
    said = cli.ok("claim", "--any-scope")
    assert "--scope north" in said, "the command to finish it with must work as it is printed"


@pytest.mark.parametrize("count", ["0", "-1", "x", "1.5", "1001", "99999999999999999999"])
def test_absurd_count_is_refused(count: str, cli: Cli) -> None:
    cli.add("job")
    cli.refuses(2, "INVALID_INPUT", "claim", f"--count={count}")


def test_renew_starts_another_lease(cli: Cli, clock: Clock) -> None:
    cli.add("job")
    token = cli.claim("--lease", "5m")
    clock.advance(minutes=4)
    assert cli.ok("renew", "job", "--token", token, "--lease", "10m") == "renewed job until 2026-01-01 12:14:00 UTC\n"
    clock.advance(minutes=9)
    assert cli.json("renew", "job", "--token", token)["task"]["lease"]["expires_at"] == "2026-01-01T12:33:00Z"


def test_renew_needs_the_token(cli: Cli) -> None:
    cli.add("job")
    cli.claim("--agent", "bob")
    told = cli.refuses(4, "HELD", "renew", "job", "--agent", "bob")
    assert told.holder == "bob"
    cli.refuses(5, "LOST_LOCK", "renew", "job", "--token", "not-the-token")


def test_forced_renew_works_or_is_not_offered(cli: Cli, clock: Clock) -> None:
    """A listed option must have an effect."""
    cli.add("job")
    cli.claim("--lease", "5m")
    clock.advance(minutes=4)
    ran = cli("renew", "job", "--force", "--lease", "10m")
    if "--force" in cli("renew", "--help").out:
        assert ran.status == 0
    else:
        assert ran.status == 2


def test_released_task_is_ready_again(cli: Cli) -> None:
    cli.add("job")
    assert cli.ok("release", "job", "--token", cli.claim("job"), "--reason", "lunch") == "released job\n"
    assert cli.ids("ready") == ["job"]
    assert "lunch" in cli.ok("list")


def test_task_released_with_a_delay_is_ready_later(cli: Cli, clock: Clock) -> None:
    cli.add("job")
    released = cli.json("release", "job", "--token", cli.claim("job"), "--for", "10m")
    assert released["task"]["not_before"] == "2026-01-01T12:10:00Z"
    assert cli.ids("ready") == []
    clock.advance(minutes=10)
    assert cli.ids("ready") == ["job"]


def test_person_in_charge_may_release_a_task(cli: Cli) -> None:
    cli.add("job")
    cli.claim("job", "--agent", "bob")
    assert "token" in cli.refuses(4, "HELD", "release", "job").message
    cli.ok("release", "job", "--force")
    assert cli.json("log", "job")[-1]["detail"] == {"forced": True}
