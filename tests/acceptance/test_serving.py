"""serve: it prints its address, answers until it is stopped, and refuses invalid options."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import urllib.request
from typing import TYPE_CHECKING

from support.cli import PATIENCE, SCRIPT

if TYPE_CHECKING:
    from support.cli import Cli


def test_server_prints_its_address_and_runs_until_stopped(cli: Cli) -> None:
    cli.add("job")
    words = [str(SCRIPT), "serve", "--port", "0", "--json"]
    with subprocess.Popen(words, cwd=cli.folder, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        told = json.loads(process.stdout.readline())["data"]
        with urllib.request.urlopen(f"{told['url']}/api/v1/tasks/job") as answer:  # noqa: S310
            assert json.load(answer)["task"]["title"] == "job"
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 0


def test_taken_port_is_reported_at_once(cli: Cli) -> None:
    cli.add("job")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        refused = cli.refuses(2, "INVALID_INPUT", "serve", "--port", str(taken.getsockname()[1]))
    assert "it is taken" in refused.message


def test_missing_store_is_reported_at_once(cli: Cli) -> None:
    cli.refuses(7, "NO_STORE", "serve", "--port", "0", "--store", "elsewhere.db")


def test_server_on_other_addresses_needs_a_secret(cli: Cli) -> None:
    cli.add("job")
    told = cli.refuses(7, "MISCONFIGURED", "serve", "--host", "0.0.0.0", "--port", "0")  # noqa: S104
    assert "DIBS_SERVE_SECRET" in told.message
