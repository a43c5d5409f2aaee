"""The table of a task's life, against one written out by hand."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import pytest

from dibs.core.errors import IllegalMove
from dibs.core.lifecycle import RULES, Move, Proof, Rule, Verb, claimed, moved, rule_for
from dibs.core.task import TERMINAL, Status, Task

from .samples import LEASE, SOON, TOKEN, human_lease, request, task_in

if TYPE_CHECKING:
    from collections.abc import Iterator

# from, verb, to, proof; `back` is where it was paused from
BY_HAND = """
    ready      claim     active     none
    active     claim     active     none
    backlog    claim     active     person
    blocked    claim     active     person
    paused     claim     active     person
    review     claim     active     person
    escalated  claim     active     person

    active     renew     active     lease
    active     done      done       lease
    active     fail      ready      lease
    active     exhaust   escalated  lease
    active     block     blocked    lease
    active     review    review     lease
    active     cancel    canceled   lease
    active     release   ready      lease
    active     pause     paused     lease

    backlog    queue     ready      none
    backlog    block     blocked    none
    backlog    pause     paused     none
    backlog    escalate  escalated  none
    backlog    cancel    canceled   none

    ready      shelve    backlog    none
    ready      block     blocked    none
    ready      pause     paused     none
    ready      escalate  escalated  none
    ready      cancel    canceled   none

    blocked    unblock   ready      none
    blocked    block     blocked    none
    blocked    pause     paused     none
    blocked    escalate  escalated  none
    blocked    cancel    canceled   none

    paused     resume    back       none
    paused     escalate  escalated  none
    paused     cancel    canceled   none

    review     approve   done       none
    review     rework    ready      none
    review     pause     paused     none
    review     cancel    canceled   none

    escalated  unblock   ready      none
    escalated  block     blocked    none
    escalated  pause     paused     none
    escalated  cancel    canceled   none

    canceled   reopen    ready      none
    done       reopen    ready      none

    active     close     done       lease
    backlog    close     done       none
    ready      close     done       none
    blocked    close     done       none
    paused     close     done       none
    review     close     done       none
    escalated  close     done       none
"""


def _read_by_hand() -> Iterator[tuple[tuple[Status, Verb], tuple[Status | None, Proof]]]:
    for line in BY_HAND.split("\n"):
        if line.strip():
            source, verb, target, proof = line.split()
            yield (Status(source), Verb(verb)), (None if target == "back" else Status(target), Proof(proof))


LEGAL = dict(_read_by_hand())
EVERY_PAIR = tuple(product(Status, Verb))
ILLEGAL = tuple(pair for pair in EVERY_PAIR if pair not in LEGAL)
# A claim needs a lease, and `exhaust` is no request: the last failure becomes one.
ASKED_FOR = tuple(verb for verb in Verb if verb not in {Verb.CLAIM, Verb.EXHAUST})
# The desk uses the other verbs itself.
COMMANDS = set(ASKED_FOR) - {Verb.ESCALATE, Verb.QUEUE, Verb.SHELVE} | {Verb.CLAIM}
BY_MOVE = tuple(pair for pair in LEGAL if pair[1] in ASKED_FOR)


def proven(verb: Verb, task: Task) -> Move:
    """The move with whatever proof the task asks for."""
    return Move(verb, task.id, task.scope, token=TOKEN if task.lease else None, lease=LEASE)


def test_there_are_no_rules_but_those_written_by_hand() -> None:
    assert {(rule.source, rule.verb): (rule.target, rule.proof) for rule in RULES} == LEGAL


def test_a_status_and_a_verb_have_one_rule() -> None:
    assert len(RULES) == len(LEGAL)


@pytest.mark.parametrize(("status", "verb"), BY_MOVE)
def test_a_legal_move_leads_where_the_table_says(status: Status, verb: Verb) -> None:
    task = task_in(status)
    target = LEGAL[status, verb][0] or task.paused_from
    after = moved(task, proven(verb, task), SOON)
    assert after.status is target
    assert after.updated_at == SOON


@pytest.mark.parametrize("status", [status for status, verb in LEGAL if verb is Verb.CLAIM])
def test_a_claim_makes_a_task_active(status: Status) -> None:
    assert claimed(task_in(status), request(), TOKEN, SOON).status is Status.ACTIVE


@pytest.mark.parametrize(("status", "verb"), ILLEGAL)
def test_illegal_move_lists_allowed_verbs(status: Status, verb: Verb) -> None:
    task = task_in(status)
    with pytest.raises(IllegalMove) as refused:
        rule_for(task, verb)
    assert f"{task.id} is {status}" in refused.value.message
    assert f"'{verb}'" in refused.value.message
    if status in TERMINAL:
        assert f"'dibs reopen {task.id}'" in refused.value.message
        return
    hinted = {other for source, other in LEGAL if source is status} & COMMANDS
    _, _, hint = refused.value.message.partition("From there: ")
    assert hint.rstrip(".") == ", ".join(sorted(hinted))


@pytest.mark.parametrize(("status", "verb"), [pair for pair in ILLEGAL if pair[1] is not Verb.CLAIM])
def test_no_authority_makes_an_illegal_move_legal(status: Status, verb: Verb) -> None:
    task = task_in(status)
    with pytest.raises(IllegalMove):
        moved(task, proven(verb, task)._replace(force=True, named=True, late_ok=True), SOON)


@pytest.mark.parametrize("status", [Status.DONE, Status.CANCELED])
def test_finished_task_is_not_claimable(status: Status) -> None:
    with pytest.raises(IllegalMove):
        claimed(task_in(status), request(), TOKEN, SOON)


LEAVING_ACTIVE = tuple(rule for rule in RULES if rule.source is Status.ACTIVE and rule.target is not Status.ACTIVE)


@pytest.mark.parametrize("rule", LEAVING_ACTIVE, ids=lambda rule: str(rule.verb))
def test_transitions_out_of_active_prove_and_end_the_lease(rule: Rule) -> None:
    assert rule.proof is Proof.LEASE
    assert "lease" in rule.clears
    assert "spent_token" in rule.sets


@pytest.mark.parametrize("verb", [rule.verb for rule in LEAVING_ACTIVE if rule.verb in ASKED_FOR])
@pytest.mark.parametrize("max_retries", [None, 0])
def test_an_ended_lease_is_gone_and_its_token_remembered(verb: Verb, max_retries: int | None) -> None:
    task = task_in(Status.ACTIVE, max_retries=max_retries)
    after = moved(task, proven(verb, task), SOON)
    assert after.lease is None
    assert after.spent_token == TOKEN


@pytest.mark.parametrize(("status", "verb"), BY_MOVE)
def test_move_changes_only_the_fields_of_its_rule(status: Status, verb: Verb) -> None:
    task = task_in(status, description="text", steps=("one",), priority=1, extra={"k": 1}, ref="r", merged_into="z")
    move = proven(verb, task)._replace(
        reason="why", result={"n": 1}, artifacts=("f",), unblock_action="do", by=request().by
    )
    after = moved(task, move, SOON)
    rule = rule_for(task, verb)
    may_change = {*rule.sets, *rule.clears, "status", "updated_at"}
    assert {name for name in Task._fields if getattr(task, name) != getattr(after, name)} <= may_change


@pytest.mark.parametrize("status", Status)
def test_a_move_is_no_way_to_claim(status: Status) -> None:
    """It would make a task active without a lease, or a new attempt under the old one."""
    task = task_in(status)
    with pytest.raises(IllegalMove):
        moved(task, proven(Verb.CLAIM, task)._replace(force=True), SOON)


@pytest.mark.parametrize("status", [Status.BACKLOG, Status.READY, Status.BLOCKED, Status.REVIEW, Status.ESCALATED])
def test_resume_leads_back_to_where_it_was_paused(status: Status) -> None:
    task = task_in(status)
    paused = moved(task, Move(Verb.PAUSE, "a", "desk", reason="lunch"), SOON)
    assert (paused.paused_from, paused.reason, paused.reason_before) == (status, "lunch", task.reason)
    assert moved(paused, Move(Verb.RESUME, "a", "desk"), SOON) == task._replace(updated_at=SOON)


def test_active_work_paused_resumes_as_ready() -> None:
    task = task_in(Status.ACTIVE)
    paused = moved(task, proven(Verb.PAUSE, task), SOON)
    assert moved(paused, Move(Verb.RESUME, "a", "desk"), SOON).status is Status.READY


def test_pause_of_unknown_origin_resumes_as_ready() -> None:
    task = task_in(Status.PAUSED, paused_from=None)
    assert moved(task, Move(Verb.RESUME, "a", "desk"), SOON).status is Status.READY


def test_a_human_hold_can_be_paused_too() -> None:
    task = task_in(Status.ACTIVE, lease=human_lease())
    assert moved(task, proven(Verb.PAUSE, task), SOON).status is Status.PAUSED
