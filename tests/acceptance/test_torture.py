"""torture: a verdict, a report, and nothing left behind; invalid input is refused before the run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.cli import PATIENCE, SCRIPT

if TYPE_CHECKING:
    from support.cli import Cli

QUICK = ("--minutes", "0.02", "--workers", "2", "--tasks", "40", "--faults", "kill,stop")


def test_torture_prints_a_verdict_and_leaves_the_store_unchanged(cli: Cli) -> None:
    cli.add("mine")
    before, files = cli.snapshot(), sorted(os.listdir(cli.store.parent))
    ran = cli("torture", *QUICK, "--json")
    assert ran.status == 0
    assert ran.data["violations"] == []
    assert ran.data["operations"] > 20
    assert set(ran.data["faults"]) == {"kill", "stop"}
    assert cli.snapshot() == before
    assert sorted(os.listdir(cli.store.parent)) == files


def test_report_can_be_judged_again_and_has_no_token(cli: Cli) -> None:
    assert cli("torture", *QUICK, "--report", "lab").status == 0
    lab = cli.folder / "lab"
    assert sorted(os.listdir(lab)) == ["history.jsonl", "report.html", "report.json", "report.txt"]
    page = (lab / "report.html").read_text(encoding="utf-8")
    assert '<rect class="hold done' in page
    assert "http" not in page.replace("http://www.w3.org/2000/svg", ""), "it stands for itself"
    tokens = {json.loads(line).get("token", "") for line in (lab / "history.jsonl").read_text().splitlines()}
    assert all("#" in token for token in tokens - {""})
    assert cli("torture", "--check", "lab/history.jsonl").out.startswith("no violations in ")
    told = cli.refuses(2, "INVALID_INPUT", "torture", "--report", "lab")
    assert "not empty" in told.message


def test_history_with_violations_exits_with_1(cli: Cli) -> None:
    assert cli("torture", *QUICK, "--report", "lab").status == 0
    path = cli.folder / "lab" / "history.jsonl"
    lines = path.read_text().splitlines()
    claim = next(line for line in lines if '"given"' in line)
    path.write_text("\n".join([*lines[:-1], claim.replace('"worker":"w', '"worker":"x'), lines[-1]]) + "\n")
    ran = cli("torture", "--check", "lab/history.jsonl")
    assert ran.status == 1
    assert "rising attempts" in ran.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--faults", "flood"), "there is no fault 'flood'"),
        (("--faults", ""), "there is no fault"),
        (("--faults", "partition"), "'partition' cannot be done to sqlite"),
        (("--minutes", "0"), "not a number of minutes"),
        (("--minutes", "nan"), "not a number of minutes"),
        (("--workers", "65"), "room for 64"),
        (("--workers", "0"), "above zero"),
        (("--rule", "hope"), "hope"),
        (("--check", "nowhere.jsonl"), "cannot be read"),
        (("--restart-command", " ", "--faults", "kill"), "empty"),
        (("--store", "notion://23c6612f48264673a3a7711a81332876"), "The lab uses no existing database"),
    ],
)
def test_wrong_input_is_refused_before_anything_begins(cli: Cli, words: tuple[str, ...], said: str) -> None:
    told = cli.refuses(2, "INVALID_INPUT", "torture", *words)
    assert said in told.message
    assert [name for name in os.listdir(cli.store.parent) if "torture" in name] == []


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_run_ends_with_a_verdict(cli: Cli, how: signal.Signals) -> None:
    words = [str(SCRIPT), "torture", "--store", str(cli.store), "--workers", "2", "--faults", "stop", "--json"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd=cli.folder)
    try:
        _wait_for_a_fault(process)
        process.send_signal(how)
        out, _ = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
    assert process.returncode == 0, out
    assert json.loads(out)["data"]["interrupted"] is True
    assert [name for name in os.listdir(cli.store.parent) if "torture" in name] == []


def _wait_for_a_fault(process: subprocess.Popen[str]) -> None:
    """A stopped worker shows that faults are injected."""
    deadline = time.monotonic() + PATIENCE
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    while "T" not in {_state(child) for child in children.read_text().split()}:
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _state(pid: str) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][:1]
    except (FileNotFoundError, ProcessLookupError):
        return ""
