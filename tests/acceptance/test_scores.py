"""scores, from the events of real commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from support.cli import Cli


def test_work_of_each_agent_is_counted(cli: Cli) -> None:
    for name in ("one", "two", "three"):
        cli.add(name)
    cli.ok("done", "one", "--token", cli.claim("one"))
    cli.ok("fail", "two", "--token", cli.claim("two"), "--reason", "x")
    cli.claim("three")
    cli.clock.advance(hours=1)
    cli.ok("claim", "three", "--agent", "bob")
    assert cli.json("scores")["agents"] == [
        {"agent": "ann", "finished": 1, "failed": 1, "lost": 1, "median_seconds": 0.0, "points": 0}
    ]
    assert "ann    1         1       1     0ms     0" in cli.ok("scores")
    assert cli.json("scores", "--since", "30m")["agents"][0]["finished"] == 0
    assert cli.json("scores", "--since", "2026-01-02")["agents"] == []
    assert cli.json("scores", "--scope", "elsewhere")["agents"] == []
    assert cli.json("scores", "--scope", "elsewhere", "--any-scope")["agents"][0]["finished"] == 1


def test_read_letters_do_not_count_as_work(cli: Cli) -> None:
    cli.ok("mail", "send", "ann", "Hello")
    cli.ok("mail", "read", "--agent", "ann")
    assert cli.json("scores", "--any-scope")["agents"] == []


def test_invalid_time_is_refused(cli: Cli) -> None:
    cli.refuses(2, "INVALID_INPUT", "scores", "--since", "lately")
