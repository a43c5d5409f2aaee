"""Claims: in a `with` block and without one."""

from __future__ import annotations

import gc
import threading
import time
from typing import TYPE_CHECKING

import pytest

import dibs
from dibs import Status

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.clock import Clock

PATIENCE = 120.0  # seconds


def claimed(desk: dibs.Desk, id: str = "a", lease: str | float = "20m") -> dibs.Claim:  # noqa: A002
    if not desk.list(text=id):
        desk.add(f"Task {id}", id=id)
    claim = desk.claim(id, lease=lease)
    assert claim is not None
    return claim


def lose(desk: dibs.Desk, clock: Clock) -> ValueError:
    """Let the lease expire and another agent claim the task."""
    clock.advance(minutes=21)
    assert desk.claim("a", agent="bob") is not None
    return ValueError("mine")


def last(desk: dibs.Desk, id: str = "a") -> tuple[str, str]:  # noqa: A002
    event = desk.events(id)[-1]
    return event.verb, event.outcome


def test_normal_exit_finishes_with_the_result(desk: dibs.Desk) -> None:
    with claimed(desk) as claim:
        claim.result, claim.artifacts = {"rows": 3}, ["out.csv"]
    task = desk.get("a")
    assert (task.status, task.result, task.artifacts) == (Status.DONE, {"rows": 3}, ("out.csv",))
    assert claim.ended


def test_exception_fails_the_task_and_is_raised(desk: dibs.Desk) -> None:
    with pytest.raises(ValueError, match="no such column"), claimed(desk):
        raise ValueError("no such column")
    assert (desk.get("a").status, desk.get("a").reason) == (Status.READY, "no such column")
    assert last(desk) == ("fail", "ok")


def test_exception_without_a_message_gives_its_name(desk: dibs.Desk) -> None:
    with pytest.raises(KeyError), claimed(desk):
        raise KeyError
    assert desk.get("a").reason == "KeyError"


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_interrupt_releases_the_task(desk: dibs.Desk, error: type[BaseException]) -> None:
    with pytest.raises(error), claimed(desk):
        raise error
    assert (desk.get("a").status, desk.get("a").retries) == (Status.READY, 0)
    assert last(desk) == ("release", "ok")


def test_task_finished_in_the_block_stays_so(desk: dibs.Desk) -> None:
    with claimed(desk) as claim:
        claim.block("no key", unblock_action="ask ann")
    assert (desk.get("a").status, desk.get("a").unblock_action) == (Status.BLOCKED, "ask ann")


def test_finish_after_a_lost_lease_is_rejected(desk: dibs.Desk, clock: Clock) -> None:
    claim = claimed(desk)
    clock.advance(minutes=21)
    other = desk.claim("a", agent="bob")
    assert other is not None
    with pytest.raises(dibs.LostLock):
        claim.done("late")
    with pytest.raises(dibs.LostLock):
        claim.renew()
    other.done("in time")
    assert (desk.get("a").result, other.attempt) == ("in time", 2)


def test_block_with_a_lost_lease_raises_at_its_end(desk: dibs.Desk, clock: Clock) -> None:
    with pytest.raises(dibs.LostLock), claimed(desk):
        lose(desk, clock)
    assert desk.get("a").status is Status.ACTIVE


def test_error_in_a_block_with_a_lost_lease_has_a_note(desk: dibs.Desk, clock: Clock) -> None:
    with pytest.raises(ValueError, match="mine") as raised, claimed(desk):
        raise lose(desk, clock)
    assert raised.value.__notes__[0].startswith("The failure is not recorded: ")


def test_ended_claim_cannot_be_used_again(desk: dibs.Desk) -> None:
    claim = claimed(desk)
    claim.done()
    for verb in (claim.done, claim.renew, claim.release):
        with pytest.raises(dibs.LostLock, match="this attempt has ended"):
            verb()


def test_inputs_are_the_results_of_prerequisites(desk: dibs.Desk) -> None:
    claimed(desk, "one").done({"n": 1})
    claimed(desk, "two").done("second")
    desk.add("Sum", id="sum", blocked_by=["one", "two"])
    assert claimed(desk, "sum").inputs == {"one": {"n": 1}, "two": "second"}


def test_done_claims_the_next_in_the_same_step(desk: dibs.Desk) -> None:
    first = claimed(desk, "a")
    desk.add("Next", id="b", blocked_by=["a"])
    second = first.done("x", next=True)
    assert second is not None
    assert (second.id, second.inputs, first.unblocked) == ("b", {"a": "x"}, ("b",))
    assert second.done(next=True) is None


def test_next_claim_is_none_when_nothing_is_ready(desk: dibs.Desk) -> None:
    assert desk.claim() is None
    assert desk.claim(wait="0.01s") is None


def test_waiting_claim_gets_a_task_that_arrives(desk: dibs.Desk) -> None:
    found: list[dibs.Claim | None] = []
    waiter = threading.Thread(target=lambda: found.append(desk.claim(wait=PATIENCE)))
    waiter.start()
    desk.add("A", id="a")
    waiter.join(PATIENCE)
    assert [claim and claim.id for claim in found] == ["a"]


def test_held_task_raises_its_holder(desk: dibs.Desk) -> None:
    claimed(desk)
    with pytest.raises(dibs.Held, match="ann"):
        desk.claim("a", agent="bob")


def test_lease_is_renewed_in_the_background(desk: dibs.Desk, clock: Clock) -> None:
    """The store's clock moves only here, so the lease cannot expire; the renewals are real."""
    with claimed(desk, lease=1.2) as claim:
        clock.advance(seconds=0.6)
        wait_until(lambda: _left(claim.task, clock) > 1)
    assert desk.get("a").status is Status.DONE


def _left(task: dibs.Task, clock: Clock) -> float:
    assert task.lease is not None
    assert task.lease.expires_at is not None
    return (task.lease.expires_at - clock.time).total_seconds()


def wait_until(holds: Callable[[], bool]) -> None:
    give_up_at = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < give_up_at
        time.sleep(0.01)


def test_renewal_that_finds_the_lease_lost_ends_the_claim(desk: dibs.Desk, clock: Clock) -> None:
    claim = claimed(desk, lease=1.2)
    clock.advance(seconds=2)
    assert desk.claim("a", agent="bob") is not None
    with pytest.raises(dibs.LostLock), claim:
        wait_until(lambda: claim.ended)
    with pytest.raises(dibs.LostLock):
        claim.renew()


def test_closed_desk_leaves_no_thread() -> None:
    with dibs.open(":memory:", agent="ann") as desk, claimed(desk):
        assert "dibs-renewals" in {thread.name for thread in threading.enumerate()}
    gc.collect()
    assert "dibs-renewals" not in {thread.name for thread in threading.enumerate()}


def test_desk_is_shared_by_threads(desk: dibs.Desk) -> None:
    for number in range(60):
        desk.add("Task", id=f"t{number}")
    done: list[str] = []

    def work(agent: str) -> None:
        for claim in desk.work(agent):
            with claim:
                done.append(claim.id)

    threads = [threading.Thread(target=work, args=(f"agent-{number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert sorted(done) == sorted(f"t{number}" for number in range(60))
