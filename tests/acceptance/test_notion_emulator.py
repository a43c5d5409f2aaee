"""notion-emulator: it prints the variables to export, serves until stopped, and refuses invalid options."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest

from support.cli import PATIENCE, SCRIPT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.cli import Cli

EXPORTS = r"export NOTION_API_BASE_URL=(\S+)\nexport NOTION_TOKEN=(\S+)\nexport NOTION_TASKS_DB_ID=(\S+)\n"


class Served:
    """The running program, and the variables that it printed."""

    def __init__(self, *words: str) -> None:
        self.process = subprocess.Popen([SCRIPT, "notion-emulator", *words], stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        head = "".join(self.process.stdout.readline() for _ in range(5))
        found = re.search(EXPORTS, head)
        assert found, head
        self.url, self.token, self.database = found.groups()

    def ask(self, path: str, body: object = None) -> Any:
        headers = {"Authorization": f"Bearer {self.token}", "Notion-Version": "2022-06-28"}
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(urllib.request.Request(f"{self.url}{path}", data, headers)) as answer:  # noqa: S310
            return json.load(answer)

    def end(self, how: signal.Signals) -> int:
        self.process.send_signal(how)
        self.process.communicate(timeout=PATIENCE)
        return self.process.returncode


@pytest.fixture
def served() -> Iterator[Served]:
    one = Served("--lag", "2s", "--fault", "conflict=0.5")
    yield one
    one.end(signal.SIGKILL)


def test_emulator_serves_an_ntask_database_until_ctrl_c(served: Served) -> None:
    assert served.ask("/v1/users/me")["type"] == "bot"
    found = served.ask("/v1/search", {"query": ""})["results"]
    assert [one["id"] for one in found if one["object"] == "database"] == [served.database]
    assert served.end(signal.SIGINT) == 0
    with pytest.raises(OSError, match="refused"):
        served.ask("/v1/users/me")


def test_its_tasks_can_be_claimed_and_finished() -> None:
    served = Served("--rate", "0")
    try:
        rows = served.ask(f"/v1/databases/{served.database}/query", {})["results"]
        statuses = [row["properties"]["Status"]["select"]["name"] for row in rows]
        assert sorted(statuses) == ["BACKLOG", "READY", "READY", "READY", "READY", "READY"]
        counts = [row["properties"]["Dependencies"]["rollup"]["number"] for row in rows]
        assert sorted(counts) == [0, 0, 0, 0, 0, 2]
    finally:
        served.end(signal.SIGKILL)


def test_exports_are_printed_as_json_too(cli: Cli) -> None:
    said = cli.json("notion-emulator", "--for", "0.01s", "--empty")
    assert list(said) == ["NOTION_API_BASE_URL", "NOTION_TOKEN", "NOTION_TASKS_DB_ID"]
    mesh = cli.json("notion-emulator", "--for", "0.01s", "--layout", "mesh")
    assert list(mesh)[2:] == ["MESH_TASKS_DB_ID", "MESH_TASK_LOG_DB_ID", "MESH_COMM_LOG_DB_ID"]


def test_same_seed_makes_the_same_ids(cli: Cli) -> None:
    def ids(seed: str) -> list[str]:
        said = cli.json("notion-emulator", "--for", "0.01s", "--seed", seed)
        return [said["NOTION_TOKEN"], said["NOTION_TASKS_DB_ID"]]

    assert ids("1") == ids("1") != ids("2")


def test_taken_port_is_reported(cli: Cli) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
        told = cli.refuses(2, "INVALID_INPUT", "notion-emulator", "--port", port)
    assert told.message == f"Cannot listen on port {port}: it is taken. Choose another with --port."


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--port", "70000"), "There is no port 70000"),
        (("--fault", "fire=0.1"), "there is no fault 'fire', but conflict"),
        (("--fault", "drop=2"), "needs a share from 0 to 1"),
        (("--fault", "drop"), "needs a share from 0 to 1"),
        (("--lag", "soon"), "is not a span of time"),
        (("--layout", "ralph"), "invalid choice"),
    ],
)
def test_impossible_options_are_refused(cli: Cli, words: tuple[str, ...], message: str) -> None:
    assert message in cli.refuses(2, "INVALID_INPUT", "notion-emulator", *words).message
