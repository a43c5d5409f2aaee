"""Commands that run until stopped: at any moment, a signal ends them with status 0."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dibs.console.stopping import Stop

if TYPE_CHECKING:
    from support.cli import Cli

SIGNALED = Path(__file__).parent / "signaled.py"
MOMENTS = (0, 40, 400, 4000)
PATIENCE = 120  # seconds
ANN = "a" * 64
COMMANDS = {
    "serve": ("serve", "--port", "0"),
    "work": ("work", "--agent", "ann", "--", "true"),
    "work on a task": ("work", "--agent", "ann", "--", "true"),
    "dispatch": ("dispatch", "--watch"),
    "flush": ("flush", "--watch"),
    "inbox": ("inbox", "--follow", "--sender-hash", ANN),
    "mail": ("mail", "watch", "--agent", "ann"),
    "sync": ("sync", "notion", "--watch"),
    "mcp": ("mcp", "--agent", "ann"),
    "kurultai": ("kurultai", "run", "--no-notion"),
    "vault": ("vault", "agent", "--agent", "ann", "--", "true"),
    "demo": ("demo", "--no-browser", "--minutes", "1"),
    "notion-emulator": ("notion-emulator",),
    "torture": ("torture", "--workers", "1", "--faults", "stop"),
}


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("name", COMMANDS)
def test_first_signal_ends_command_with_status_0(cli: Cli, name: str, moment: int) -> None:
    if name == "work on a task":
        cli.add("job")
    if name == "vault":
        cli.ok("vault", "init", "vault")
    number = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)[MOMENTS.index(moment) % 3]
    environ = os.environ | {"VAULT_PATH": str(cli.folder / "vault")}
    stdin, client = os.pipe()  # open until the end: `dibs mcp` also ends with its client
    try:
        ran = subprocess.run(
            [sys.executable, SIGNALED, str(int(number)), str(moment), *COMMANDS[name]],
            cwd=cli.folder,
            env=environ,
            stdin=stdin,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
    finally:
        os.close(stdin)
        os.close(client)
    assert ran.returncode == 0, ran
    assert "Traceback" not in ran.stderr, ran.stderr
    if name == "work on a task":
        assert cli.json("show", "job")["status"] in {"ready", "done"}


def test_second_signal_forces_the_end() -> None:
    with Stop() as stop:
        signal.raise_signal(signal.SIGTERM)
        assert (stop.requested, stop.wait(0), stop.status) == (True, True, 0)
        with pytest.raises(SystemExit) as forced:
            signal.raise_signal(signal.SIGINT)
    assert forced.value.code == stop.status == 128 + signal.SIGINT


def test_early_signal_reaches_a_late_callback() -> None:
    calls: list[str] = []
    with Stop() as stop:
        signal.raise_signal(signal.SIGINT)
        stop.calls(lambda: calls.append("request"), lambda: calls.append("force"))
        assert calls == ["request"]
        signal.raise_signal(signal.SIGINT)
    assert calls == ["request", "force"]


def test_ignored_signal_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Stop() as stop:
            signal.raise_signal(signal.SIGHUP)
            assert not stop.requested
    finally:
        signal.signal(signal.SIGHUP, before)
