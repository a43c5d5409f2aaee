"""The right to renew and finish an attempt: by the owner's name, by token, or by force."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dibs.core.task import Status

if TYPE_CHECKING:
    from support.ralph import Ralph


@pytest.mark.parametrize("verb", ["done", "fail"])
def test_done_and_fail_check_the_owner_when_the_caller_is_known(ralph: Ralph, verb: str) -> None:
    ralph.create("a")
    ralph.claim("a", agent="ann")
    before = ralph.task("a")
    ran = ralph(verb, "a", agent="bob")
    assert (ran.status, ran.out) == (1, "")
    assert "ann" in ran.err
    assert ralph.task("a") == before
    assert ralph(verb, "a", "--agent", "ann").status == 0


@pytest.mark.parametrize("verb", ["done", "fail"])
def test_a_hook_may_finish_for_others_with_force_and_that_is_on_record(ralph: Ralph, verb: str) -> None:
    ralph.create("a")
    ralph.claim("a", agent="ann")
    assert ralph(verb, "a", "--force", agent="bob").status == 0
    assert ralph.events("a")[-1].detail == {"forced": True}


@pytest.mark.parametrize("verb", ["done", "fail"])
def test_caller_without_a_name_is_trusted_and_logged(ralph: Ralph, verb: str) -> None:
    ralph.create("a")
    ralph.claim("a", agent="ann")
    assert ralph(verb, "a").status == 0
    assert ralph.events("a")[-1].detail == {"forced": True}


def test_late_holder_may_renew_and_finish_an_unclaimed_task(ralph: Ralph) -> None:
    ralph.create("a", "b")
    ralph.claim("a", "--lease", "1")
    ralph.claim("b", "--lease", "1")
    ralph.place.let(1.1)
    assert ralph.ok("renew", "a", agent="ann") == "renewed a\n"
    assert ralph("peek").ids == ["b", "a"]
    assert ralph.ok("done", "b", agent="ann") == "done b\n"


def test_a_late_holder_is_refused_once_someone_else_has_the_task(ralph: Ralph) -> None:
    ralph.create("a")
    ralph.claim("a", "--lease", "1", agent="ann")
    ralph.place.let(1.1)
    ralph.claim("a", agent="bob")
    for verb in ("renew", "done", "fail"):
        assert ralph(verb, "a", agent="ann").status == 1
    assert ralph.task("a").status is Status.ACTIVE


def test_exclusivity_follows_the_attempt_not_the_name(ralph: Ralph) -> None:
    ralph.create("a", "b")
    assert ralph.claim(agent="ann").id == "a"
    assert ralph.claim(agent="ann").id == "b"
    assert ralph("claim", agent="ann").status == 2
    assert ralph("claim", "a", agent="ann").status == 2


def test_a_token_is_checked_strictly_whatever_the_name(ralph: Ralph) -> None:
    ralph.create("a")
    first = ralph("claim", "--json", "--lease", "1", agent="ann").data
    ralph.place.let(1.1)
    second = ralph("claim", "--json", agent="ann").data
    assert (first["attempt"], second["attempt"]) == (1, 2)
    for verb in ("renew", "done", "fail"):
        ran = ralph(verb, "a", "--token", first["token"], agent="ann")
        assert ran.status == 1
        assert first["token"] not in ran.err
    assert ralph("renew", "a", agent="ann", RALPH_TOKEN=first["token"]).status == 1
    assert ralph.ok("renew", "a", agent="ann", RALPH_TOKEN=second["token"]) == "renewed a\n"
    assert ralph.ok("done", "a", "--token", second["token"]) == "done a\n"


def test_a_finish_repeated_with_its_token_is_answered_again(ralph: Ralph) -> None:
    ralph.create("a")
    token = ralph("claim", "--json", agent="ann").data["token"]
    assert ralph.ok("done", "a", "--token", token, agent="ann") == "done a\n"
    assert ralph.ok("done", "a", "--token", token, agent="ann") == "done a\n"
    assert ralph("done", "a", agent="ann").status == 1


def test_token_is_shown_only_on_request(ralph: Ralph) -> None:
    ralph.create("a")
    claimed = ralph("claim", agent="ann")
    lease = ralph.task("a").lease
    assert lease is not None
    shown = "".join(ralph(*words).out for words in (("peek", "--json"), ("show", "a", "--json"), ("list", "--json")))
    assert lease.token not in claimed.out + claimed.err + shown
