"""Failures of Notion: code, advice, no half-done change, no secret shown."""

from __future__ import annotations

import os
import re
import socket
import ssl
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dibs.lab.emulator import ntask_schema
from support.notion import PATIENCE, date, hurried, select, text
from support.ports import silent_port

from .test_notion import by_hand, claim_words, place_of
from .test_script import ended
from .test_seed import LATE, MORE, end

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.ntask import Held, Ntask, Ran

SECRET = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


@pytest.fixture
def ntask(make: Callable[..., Ntask]) -> Ntask:
    return make()


# Settings, rights and properties


def test_a_missing_property_is_misconfigured_and_named(make: Callable[..., Ntask]) -> None:
    schema = ntask_schema()
    del schema["Lock Token"]
    schema["Lock Expires"] = {"rich_text": {}}
    ntask = make(schema)
    by_hand(ntask)
    for words in (("next",), ("claim", "TASK-1", "--run-id", "r", "--agent-name", "a"), ("doctor",)):
        ran = ntask(*words)
        assert (ran.code, ran.status) == ("MISCONFIGURED", 3)
        assert "Lock Token" in ran.message
        assert "Lock Expires" in ran.message
    checks = ntask("doctor").data["checks"]
    assert checks["property Lock Token"]["ok"] is False
    assert checks["property Status"]["ok"] is True


def test_doctor_reports_each_check_separately(ntask: Ntask) -> None:
    ntask.create()
    checks = ntask("doctor").data["checks"]
    assert {"env", "token", "reachable", "database", "comments", "clock", "store", "exclusive"} <= checks.keys()
    assert {f"property {name}" for name in ("ID", "Status", "Lock Token", "Dependencies", "Artifacts")} <= checks.keys()
    assert all(set(check) == {"ok", "message"} for check in checks.values())
    assert all(check["ok"] for check in checks.values())
    assert checks["store"]["message"] == "notion"
    assert checks["exclusive"]["message"].startswith("timed")


def test_doctor_reports_disabled_comments(ntask: Ntask) -> None:
    ntask.create()
    ran = ntask("doctor", NOTION_TOKEN=place_of(ntask).notion.api.bot())
    assert (ran.code, ran.status) == ("MISCONFIGURED", 3)
    assert ran.data["checks"]["comments"]["ok"] is False


def test_without_the_right_to_comment_cancel_keeps_both_reasons(ntask: Ntask) -> None:
    held = ntask.claim(ntask.create())
    ntask.ok("block", *held.words, "--reason", "no key", "--unblock-action", "u")
    ran = ntask("cancel", held.id, "--reason", "not needed", NOTION_TOKEN=place_of(ntask).notion.api.bot())
    assert ran.status == 0
    assert {"no key", "not needed"} <= set(re.split(r"[:\n]+ ?", ran.task["blocker_reason"]))
    assert ntask("comment", held.id, "--text", "x", NOTION_TOKEN=place_of(ntask).notion.api.bot()).status == 3


def test_wrong_settings_are_misconfigured_with_advice(ntask: Ntask) -> None:
    ntask.create()
    for env, said in (
        ({"NOTION_TOKEN": ""}, "NOTION_TOKEN"),
        ({"NOTION_TOKEN": "ntn_wrong_key_of_nobody"}, "NOTION_TOKEN"),
        ({"NOTION_TASKS_DB_ID": ""}, "NOTION_TASKS_DB_ID"),
        ({"NOTION_TASKS_DB_ID": "not an id"}, "id"),
        ({"NOTION_TASKS_DB_ID": "00000000000040008000000000000000"}, "database"),
    ):
        for words in (("next",), ("doctor",), claim_words("TASK-1")):
            ran = ntask(*words, **env)
            assert (ran.code, ran.status) == ("MISCONFIGURED", 3), (env, words, ran)
            assert said in ran.message
            assert "ntn_wrong_key_of_nobody" not in ran.out + ran.err


def test_a_database_that_is_no_longer_shared_is_misconfigured(ntask: Ntask) -> None:
    task = ntask.create()
    place = place_of(ntask)
    page = place.page(task)
    place.notion.api.human.unshare(place.database.id)
    place.notion.api.human.unshare(page)
    for words in (("next",), ("list",), ("get", task), ("get", page), claim_words(task), ("doctor",)):
        assert ntask(*words).code == "MISCONFIGURED", words


def everything(held: Held) -> list[tuple[str, ...]]:
    """Every command that sends requests to Notion."""
    return [
        ("next",),
        ("get", held.id),
        ("list",),
        claim_words(held.id),
        *((how, *held.words, *MORE[how]) for how in MORE),
        ("unblock", held.id),
        ("approve", held.id),
        ("rework", held.id),
        ("create", "--title", "T"),
        ("update", held.id, "--priority", "1"),
        ("comment", held.id, "--text", "x"),
        ("doctor",),
    ]


@pytest.mark.parametrize(
    "fault", ["unavailable", "internal_error", "bad_gateway", "overload", "rate_limited", "drop", "garbage"]
)
def test_notion_failure_is_an_api_error_without_secrets(ntask: Ntask, fault: str) -> None:
    held = ntask.claim(ntask.create())
    place = place_of(ntask)
    before = place.properties(held.id)
    for words in everything(held):
        place.notion.api.faults.next(fault, times=1000)
        ran = ntask(*words)
        place.notion.api.faults.clear()
        assert (ran.code, ran.status) == ("API_ERROR", 5), (words, ran)
        assert place.notion.api.token not in ran.out + ran.err
        assert held.token not in ran.out + ran.err
    if fault != "garbage":  # the work is done before such an answer
        assert place.properties(held.id) == before


def test_unreachable_notion_is_an_api_error_without_secrets(ntask: Ntask) -> None:
    held = ntask.claim(ntask.create())
    with silent_port() as port:
        for words in everything(held):
            ran = ntask(*words, NOTION_API_BASE_URL=f"http://127.0.0.1:{port}")
            assert (ran.code, ran.status) == ("API_ERROR", 5), (words, ran)
            assert place_of(ntask).notion.api.token not in ran.out + ran.err
            assert held.token not in ran.out + ran.err


def test_a_connection_that_is_not_safe_is_an_api_error(ntask: Ntask, folder: Path) -> None:
    ntask.create()
    key, certificate = folder / "key.pem", folder / "cert.pem"
    words = "openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=localhost -keyout key.pem -out cert.pem"
    subprocess.run(words.split(), check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=_shake_hands, args=(server, context), daemon=True).start()
        ran = ntask("next", NOTION_API_BASE_URL=f"https://127.0.0.1:{server.getsockname()[1]}")
    assert (ran.code, ran.status) == ("API_ERROR", 5)
    assert "certificate" in ran.message
    assert place_of(ntask).notion.api.token not in ran.out + ran.err


def _shake_hands(server: socket.socket, context: ssl.SSLContext) -> None:
    while True:
        try:
            connection, _ = server.accept()
        except OSError:
            return
        try:
            context.wrap_socket(connection, server_side=True).close()
        except OSError:
            connection.close()


def test_unanswered_claim_write_is_an_api_error_without_token(ntask: Ntask) -> None:
    """Notion may still carry out the write, so the answer must not contain a token."""
    task = ntask.create()
    place = place_of(ntask)
    place.notion.api.faults.hold("PATCH")
    with hurried("PATCH", times=1):
        ran = ntask(*claim_words(task))
    assert (ran.code, ran.status) == ("API_ERROR", 5)
    assert place.notion.api.token not in ran.out + ran.err
    assert not SECRET.search(ran.out + ran.err)


@pytest.mark.parametrize("fault", ["unavailable_after_commit", "gateway_timeout_after_commit", "drop_after_commit"])
@pytest.mark.parametrize("how", MORE)
def test_finish_with_a_lost_answer_is_not_repeated(ntask: Ntask, how: str, fault: str) -> None:
    held = ntask.claim(ntask.create())
    place = place_of(ntask)
    place.let(300)
    place.notion.api.requests.clear()
    place.notion.api.faults.next(fault, method="PATCH")
    assert ntask(how, *held.words, *MORE[how]).code is None
    assert place.notion.api.requests.count("PATCH") == 1


def test_finish_retries_after_notions_conflict(ntask: Ntask) -> None:
    held = ntask.claim(ntask.create())
    place_of(ntask).notion.api.faults.next("conflict", method="PATCH")
    end(ntask, held, "complete")


@pytest.mark.parametrize("how", ["complete", "block", "review", "cancel"])
def test_lock_overwritten_before_read_back_is_lost(ntask: Ntask, how: str) -> None:
    """The next owner's write follows ours before the read-back."""
    held = ntask.claim(ntask.create())
    place = place_of(ntask)
    hold = place.notion.api.faults.hold("PATCH", path="pages/", after_commit=True)
    came: list[Ran] = []
    finisher = threading.Thread(target=lambda: came.append(ntask(how, *held.words, *MORE[how])))
    finisher.start()
    hold.wait_for_arrival(PATIENCE)
    theirs = {"Lock_Token": text("another"), "Agent": text("eve"), "Claimed_By": select("AGENT")}
    place.edit(held.id, Status=select("IN_PROGRESS"), Lock_Expires=date("2999-01-01T00:00:00Z"), **theirs)
    before = place.properties(held.id)
    hold.release()
    finisher.join()
    assert (came[0].code, came[0].status) == ("LOST_LOCK", 4)
    assert place.properties(held.id) == before


def test_database_ignores_other_stores_scope(ntask: Ntask) -> None:
    task = ntask.create()
    assert ntask("next", DIBS_SCOPE="elsewhere").task["task_id"] == task


# The `notion` program as a way to Notion


def test_without_the_notion_program_the_cli_transport_is_cli_missing(ntask: Ntask, folder: Path) -> None:
    ntask.create()
    for words in (("next",), ("doctor",)):
        ran = ntask(*words, NTASK_TRANSPORT="cli", PATH=str(folder))
        assert (ran.code, ran.status) == ("CLI_MISSING", 3)
        assert "notion" in ran.message


PROGRAM = Path(__file__).parents[2] / "stores" / "notion" / "program.py"


def test_task_is_processed_through_the_notion_program(ntask: Ntask, folder: Path) -> None:
    script = folder / "notion"
    script.write_text(f'#!/bin/sh\necho "$@" >> "{folder}/calls"\nexec "{sys.executable}" "{PROGRAM}" "$@"\n')
    script.chmod(0o755)
    way: dict[str, Any] = {"NTASK_TRANSPORT": "cli", "PATH": f"{folder}:{os.environ['PATH']}"}
    task = ntask.ok("create", "--title", "T", **way)["task_id"]
    assert ntask("next", **way).task["task_id"] == task
    claimed = ntask("claim", task, "--run-id", "run-1", "--agent-name", "ann", **way)
    assert claimed.code is None, claimed
    words = (task, "--run-id", "run-1", "--lock-token", claimed.task["lock_token"])
    assert ntask("complete", *words, "--artifacts", "x", **way).task["status"] == "DONE"
    assert place_of(ntask).properties(task)["Status"] == "DONE"
    assert place_of(ntask).notion.api.token not in (folder / "calls").read_text()


# Real processes


def test_two_racing_processes_have_one_winner(ntask: Ntask) -> None:
    place = place_of(ntask)
    url = f"notion://{place.database.id}?window=1&settle=1.2"
    for _ in range(2):
        task = ntask.create()
        racers = [
            ntask.start("claim", task, "--run-id", f"run-{number}", "--agent-name", "ann", NTASK_STORE=url)
            for number in range(3)
        ]
        came = [ended(racer) for racer in racers]
        won = [ran for ran in came if ran.status == 0]
        assert len(won) <= 1, came
        assert {ran.code for ran in came} <= {None, "CONFLICT", "API_ERROR"}
        for ran in came:
            assert place.notion.api.token not in ran.out + ran.err
            assert not SECRET.search(ran.err), ran
        if won and not any(ran.code == "API_ERROR" for ran in came):  # this process's write may arrive late
            assert place.properties(task)["Lock Token"] == won[0].task["lock_token"]
        place.let(LATE)


def test_lock_of_a_killed_claimer_expires(ntask: Ntask) -> None:
    task = ntask.create()
    place = place_of(ntask)
    patient = f"notion://{place.database.id}?window={PATIENCE}&settle={PATIENCE + 1}"  # it cannot end before the kill
    claimer = ntask.start(*claim_words(task, agent="ann"), NTASK_STORE=patient)
    while place.properties(task)["Status"] != "IN_PROGRESS":
        assert claimer.poll() is None
        os.sched_yield()
    claimer.kill()
    claimer.communicate()
    assert ntask.next() is None
    place.let(LATE)
    assert ntask.next() == task
    ntask.claim(task)
