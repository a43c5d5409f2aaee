"""Errors: the ones of the tree, with stable codes, and without secrets."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from dibs.core.errors import DibsError
from dibs.core.lifecycle import Verb
from dibs.core.task import Edit, Status

from .builders import (
    LEASE,
    SCOPE,
    add,
    amend,
    apply,
    blocks,
    bring,
    claim,
    draft,
    dump,
    get,
    hold,
    hold_as_human,
    link,
    move,
    plan,
    restore,
    unlink,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from clock import Clock
    from dibs.stores.port import Store

# What is asked of the store below, and the code and exit status of the error it answers with.
ASKED: dict[str, tuple[Callable[[Store], object], str, int]] = {
    "get": (lambda store: get(store, "nowhere"), "NOT_FOUND", 3),
    "links": (lambda store: store.links(SCOPE, "nowhere"), "NOT_FOUND", 3),
    "claim": (lambda store: claim(store, "ann", "nowhere"), "NOT_FOUND", 3),
    "move": (lambda store: move(store, Verb.DONE, "nowhere", "secret-x"), "NOT_FOUND", 3),
    "amend": (lambda store: amend(store, "nowhere", Edit(title="x")), "NOT_FOUND", 3),
    "link": (lambda store: link(store, blocks("ready", "nowhere")), "NOT_FOUND", 3),
    "unlink": (lambda store: unlink(store, blocks("ready", "done")), "NOT_FOUND", 3),
    "plan": (lambda store: apply(store, plan({"id": "x", "deps": ["nowhere"]})), "PLAN_INVALID", 2),
    "held": (lambda store: claim(store, "ann", "active"), "HELD", 4),
    "held by a person": (lambda store: claim(store, "ann", "human"), "HELD", 4),
    "no token": (lambda store: move(store, Verb.DONE, "active"), "HELD", 4),
    "expired, no token": (lambda store: move(store, Verb.DONE, "expired"), "ILLEGAL_MOVE", 4),
    "wrong token": (lambda store: move(store, Verb.DONE, "active", "secret-x"), "LOST_LOCK", 5),
    "late": (lambda store: move(store, Verb.DONE, "expired", _token(store, "expired")), "LOST_LOCK", 5),
    "spent": (lambda store: move(store, Verb.CANCEL, "done", get(store, "done").spent_token), "LOST_LOCK", 5),
    "waiting": (lambda store: claim(store, "ann", "waiting"), "WAITING", 4),
    "early": (lambda store: claim(store, "ann", "early"), "WAITING", 4),
    "assigned": (lambda store: claim(store, "ann", "assigned"), "NOT_FOR_YOU", 4),
    "skilled": (lambda store: claim(store, "ann", "skilled"), "NOT_FOR_YOU", 4),
    "finished": (lambda store: claim(store, "ann", "done"), "ILLEGAL_MOVE", 4),
    "idle": (lambda store: claim(store, "ann", "blocked"), "ILLEGAL_MOVE", 4),
    "verb": (lambda store: move(store, Verb.APPROVE, "ready"), "ILLEGAL_MOVE", 4),
    "rewritten": (lambda store: amend(store, "done", Edit(title="x")), "ILLEGAL_MOVE", 4),
    "cycle": (lambda store: link(store, blocks("active", "waiting")), "CYCLE", 6),
    "children": (lambda store: move(store, Verb.DONE, "parent", _token(store, "parent")), "INCOMPLETE_SUBTASKS", 6),
    "taken": (lambda store: add(store, "ready"), "ALREADY_EXISTS", 6),
    "restored twice": (lambda store: restore(store, dump(store)), "ALREADY_EXISTS", 6),
}


def _token(store: Store, task: str) -> str | None:
    lease = get(store, task).lease
    return lease and lease.token


@pytest.fixture
def busy(store: Store, clock: Clock) -> Store:
    add(store, "expired", draft("early", not_before=store.now().replace(year=2100)), draft("assigned", assigned_to="x"))
    add(store, draft("skilled", requires=("x",)), "waiting", "human", "parent", draft("child", parent="parent"))
    hold(store, "expired")
    clock.advance(minutes=30)
    for status in (Status.READY, Status.ACTIVE, Status.BLOCKED, Status.DONE):
        bring(store, status.value, status)
    hold(store, "parent", lease=9 * LEASE)
    hold_as_human(store, "human")
    link(store, blocks("waiting", "active"))
    return store


# Plans and imports, which not every store takes.
_WHOLE = {"plan", "restored twice"}


@pytest.mark.needs("links")
def test_an_error_has_its_code_and_a_message_that_keeps_secrets(busy: Store) -> None:
    for asked, (ask, code, exit_status) in ASKED.items():
        if asked in _WHOLE and not busy.capabilities.transactions:
            continue
        with pytest.raises(DibsError) as raised:
            ask(busy)
        error = raised.value
        assert (asked, error.code, error.exit_status) == (asked, code, exit_status)
        assert "secret-" not in str(error) + repr(error) + error.message
        assert re.search(r"\w", error.message)


@pytest.mark.needs("links")
def test_values_keep_secrets_when_they_are_shown(busy: Store) -> None:
    for task in ("active", "done", "human"):
        shown = get(busy, task)
        assert "secret-" not in repr(shown) + str(shown) + repr(shown.lease)
