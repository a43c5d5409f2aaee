"""agent register, list, deregister."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

import pytest

from dibs.protocols.ralph.commands import work

if TYPE_CHECKING:
    from support.ralph import Ralph


def test_register_prints_a_new_four_digit_id(ralph: Ralph) -> None:
    first, second = (ralph.ok("agent", "register").strip() for _ in range(2))
    assert re.fullmatch(r"[0-9a-f]{4}", first)
    assert re.fullmatch(r"[0-9a-f]{4}", second)
    assert first != second


def test_a_registered_agent_can_claim_at_once(ralph: Ralph) -> None:
    ralph.create("a")
    name = ralph.ok("agent", "register").strip()
    assert ralph.claim(agent=name).assignee == name


def test_list_shows_who_is_at_work_where_and_since_when(ralph: Ralph) -> None:
    name = ralph.ok("agent", "register").strip()
    (row,) = ralph("agent", "list", "--json").data
    assert list(row) == ["id", "pid", "hostname", "started_at", "status"]
    assert (row["id"], row["pid"], row["hostname"]) == (name, os.getppid(), os.uname().nodename)
    assert row["status"] == "active"
    head, line = ralph.ok("agent", "list").splitlines()
    assert head.split() == ["ID", "STATUS", "PID", "HOST", "STARTED"]
    assert line.split()[:2] == [name, "active"]


def test_process_and_host_may_be_given(ralph: Ralph) -> None:
    made = ralph("agent", "register", "--pid", "42", "--host", "box", "--json").data
    assert (made["pid"], made["hostname"]) == (42, "box")


def test_deregister_ends_it_and_list_shows_it_only_when_asked(ralph: Ralph) -> None:
    name = ralph.ok("agent", "register").strip()
    assert ralph.ok("agent", "deregister", name) == f"deregistered {name}\n"
    assert ralph.ok("agent", "list") == ""
    assert [row["status"] for row in ralph("agent", "list", "--all", "--json").data] == ["stopped"]
    assert ralph.ok("agent", "deregister", agent=name) == f"deregistered {name}\n"


def test_deregister_exits_with_2_if_unknown_and_1_if_unnamed(ralph: Ralph) -> None:
    assert ralph("agent", "deregister", "beef").status == 2
    assert ralph("agent", "deregister").status == 1


def test_what_an_agent_holds_stays_its_own(ralph: Ralph) -> None:
    ralph.create("a")
    name = ralph.ok("agent", "register").strip()
    ralph.claim(agent=name)
    ralph.ok("agent", "deregister", name)
    assert ralph.ok("done", "a", agent=name) == "done a\n"


def test_a_name_that_anyone_has_had_is_not_given_again(ralph: Ralph, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = iter(["0001", "0001", "0002"])
    monkeypatch.setattr(work, "_drawn", lambda: next(drawn))
    assert ralph.ok("agent", "register") == "0001\n"
    ralph.ok("agent", "deregister", "0001")
    assert ralph.ok("agent", "register") == "0002\n"


def test_concurrent_registrations_get_different_names(ralph: Ralph, monkeypatch: pytest.MonkeyPatch) -> None:
    ralph.ok("plan-status")

    def draw() -> str:
        """Register the same name while another process draws it."""
        name = next(drawn)
        if name == "0001":
            with ralph.desk() as desk:
                desk.register(name)
        return name

    drawn = iter(["0001", "0002"])
    monkeypatch.setattr(work, "_drawn", draw)
    assert ralph.ok("agent", "register") == "0002\n"
    assert [row["id"] for row in ralph("agent", "list", "--json").data] == ["0001", "0002"]


@pytest.mark.parametrize("words", [(), ("sing",), ("register", "beef"), ("list", "beef"), ("register", "--pid", "x")])
def test_wrong_words_exit_with_1(ralph: Ralph, words: tuple[str, ...]) -> None:
    ran = ralph("agent", *words)
    assert (ran.status, ran.out) == (1, "")
