"""The settings that ralph reads from the environment: the store, the scope, the agent."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from dibs.core import checks
from dibs.core.errors import InvalidInput
from dibs.protocols.ralph.settings import scope_name

if TYPE_CHECKING:
    from pathlib import Path

    from support.ralph import Ralph

NAME = st.text(st.characters(exclude_categories=["C", "Zl", "Zp"]), max_size=90) | st.text("a@%~/+", max_size=90)


# The store


def test_the_first_use_makes_the_store_whatever_it_is(ralph: Ralph) -> None:
    assert ralph.ok("plan-status") == "0 open, 0 active, 0 done, 0 blocked, 0 deleted\n"
    ralph.create("a")
    assert ralph.claim().id == "a"


def test_without_a_store_ralph_says_what_to_set(ralph: Ralph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RALPH_DB_URL")
    ran = ralph("peek")
    assert (ran.status, ran.out) == (1, "")
    assert "RALPH_DB_URL" in ran.err


def test_the_store_of_dibs_is_the_next_choice_and_then_the_projects(
    ralph: Ralph, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RALPH_DB_URL")
    (folder / ".dibs").mkdir()
    ralph.ok("create", "a", "A", RALPH_DB_URL="sqlite:///.dibs/dibs.db")
    ralph.ok("create", "b", "B", RALPH_DB_URL="sqlite:///other.db")
    assert ralph("peek").ids == ["a"]
    assert ralph("peek", DIBS_STORE="other.db").ids == ["b"]
    assert ralph("peek", RALPH_DB_URL="sqlite:///.dibs/dibs.db", DIBS_STORE="other.db").ids == ["a"]


@pytest.mark.parametrize(
    "url", ["mysql://host/db", "sqlite:///", "sqlite:///no/such/folder/tasks.db", "sqlite:///x.db?mode=ro"]
)
def test_a_store_that_cannot_be_opened_is_an_error_that_exits_with_1(ralph: Ralph, url: str) -> None:
    ran = ralph("claim", agent="ann", RALPH_DB_URL=url)
    assert (ran.status, ran.out) == (1, "")
    assert ran.err.startswith("ralph: ")


@pytest.mark.parametrize("word", ["ralph", "ralph.db", "host/ralph", "postgresql:ralph"])
def test_a_database_without_a_scheme_is_refused_and_creates_no_file(ralph: Ralph, folder: Path, word: str) -> None:
    before = sorted(folder.rglob("*"))
    ran = ralph("create", "a", "A", RALPH_DB_URL=word)
    assert (ran.status, ran.out) == (1, "")
    assert "RALPH_DB_URL is no URL" in ran.err
    assert sorted(folder.rglob("*")) == before


def test_a_file_that_is_no_store_exits_with_1(ralph: Ralph, folder: Path) -> None:
    (folder / "notes.txt").write_text("not a database, but long enough to be looked at as one\n" * 20)
    ran = ralph("peek", RALPH_DB_URL="sqlite:///notes.txt")
    assert (ran.status, ran.out) == (1, "")


# The scope


def test_tasks_are_scoped_by_repository_and_branch(ralph: Ralph) -> None:
    ralph.ok("create", "a", "Here", RALPH_SCOPE_REPO="org/repo", RALPH_SCOPE_BRANCH="main")
    ralph.ok("create", "a", "There", RALPH_SCOPE_REPO="org/repo", RALPH_SCOPE_BRANCH="feature/x")
    assert ralph("peek").ids == []
    (here,) = ralph("peek", RALPH_SCOPE_REPO="org/repo", RALPH_SCOPE_BRANCH="main").tasks
    assert here.title == "Here"
    with ralph.desk() as desk:
        assert desk.scopes() == ["org/repo@feature/x", "org/repo@main"]


def test_a_claim_in_one_scope_leaves_the_other_alone(ralph: Ralph) -> None:
    ralph.create("a")
    ralph.ok("create", "a", "There", RALPH_SCOPE_BRANCH="main")
    ralph.claim("a")
    assert ralph("claim", agent="bob", RALPH_SCOPE_BRANCH="main").status == 0
    assert ralph("claim", agent="bob").status == 2


def test_a_plan_deletes_nothing_in_another_scope(ralph: Ralph) -> None:
    ralph.sync({"id": "a", "t": "A", "spec": "s"})
    ralph("plan-sync", stdin='{"id": "b", "t": "B", "spec": "s"}', RALPH_SCOPE_BRANCH="main")
    assert ralph.tasks() == {"a": "open"}


@pytest.mark.parametrize(
    ("repo", "branch", "scope"),
    [
        ("", "", "default"),
        ("  ", "\t", "default"),
        ("org/repo", "main", "org/repo@main"),
        ("git@host.example:org/repo.git", "main", "git@host.example:org/repo.git@main"),
        ("org/repo", "user@home/50%", "org/repo@user%40home/50%25"),
        ("org/repo", "", "org/repo@"),
        ("", "main", "@main"),
        (".github", "main", "%2Egithub@main"),
        ("%2Egithub", "main", "%252Egithub@main"),
    ],
)
def test_a_scope_stays_readable(repo: str, branch: str, scope: str) -> None:
    assert scope_name(repo, branch) == scope


@given(NAME, NAME, NAME, NAME)
@example("a@b", "c", "a", "b@c")
@example("a", "b%40c", "a", "b@c")
@example("", "default", "default", "")
@example("a" * 200, "b", "a" * 199, "ab")
@example(".a", "b", "%2Ea", "b")
def test_different_repositories_or_branches_never_share_a_scope(repo: str, branch: str, other: str, twig: str) -> None:
    assume((repo.strip(), branch.strip()) != (other.strip(), twig.strip()))
    assert scope_name(repo, branch) != scope_name(other, twig)


@given(NAME, NAME)
@example("r" * 500, "b" * 500)
@example("r" * 94 + "@" * 10, "b" * 100)
@example(".mail", "main")
def test_every_scope_is_one_that_a_store_takes(repo: str, branch: str) -> None:
    scope = scope_name(repo, branch)
    assert checks.scope(scope) == scope


def test_a_shortened_scope_is_never_taken_for_one_that_was_short_enough() -> None:
    long = scope_name("r" * 500, "b")
    assert len(long) == checks.NAME_MAX
    assert "@" not in long
    assert long.startswith("r" * 95 + "~")


@pytest.mark.parametrize("name", ["a\nb", "a\x00b", "\x1b[31m", "a\u2028b"])
def test_control_characters_are_refused_in_a_scope(name: str) -> None:
    with pytest.raises(InvalidInput):
        scope_name(name, "main")
    with pytest.raises(InvalidInput):
        scope_name("repo", name)


# The agent


def test_claim_and_renew_need_to_know_who_asks(ralph: Ralph) -> None:
    ralph.create("a")
    for words in (("claim",), ("claim", "a"), ("renew", "a")):
        ran = ralph(*words)
        assert (ran.status, ran.out) == (1, "")
        assert "RALPH_AGENT_ID" in ran.err
    assert ralph.tasks() == {"a": "open"}


def test_the_option_goes_before_the_variable(ralph: Ralph) -> None:
    ralph.create("a")
    assert ralph("claim", "--agent", "bob", agent="ann").tasks[0].assignee == "bob"
    assert ralph("renew", "a", agent="ann").status == 1
    assert ralph("renew", "a", "--agent", "bob", agent="ann").status == 0


def test_an_empty_variable_is_not_set_and_an_empty_option_is_a_mistake(ralph: Ralph) -> None:
    ralph.create("a")
    assert ralph("claim", RALPH_AGENT_ID="").status == 1
    assert ralph("claim", "--agent", "", agent="ann").status == 1
    assert ralph.ok("peek", RALPH_SCOPE_REPO="", RALPH_SCOPE_BRANCH="", RALPH_AGENT_ID="") != ""


def test_changes_are_on_record_under_the_agents_name(ralph: Ralph) -> None:
    ralph.ok("create", "a", "A", agent="planner")
    assert [event.agent for event in ralph.events("a")] == ["planner"]


# Variables of dibs that ralph ignores


def test_the_scope_and_token_of_dibs_are_not_ralphs(ralph: Ralph) -> None:
    ralph.create("a")
    ralph.claim("a")
    assert ralph("peek", DIBS_SCOPE="elsewhere").ids == ["a"]
    assert ralph("done", "a", agent="ann", DIBS_TOKEN="nonsense").status == 0  # noqa: S106 - no secret
    assert "RALPH_DB_URL" in os.environ
