"""Talking over HTTP: what is said becomes tasks, and what came of it is heard once it is said to be seen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.http import Listener

if TYPE_CHECKING:
    from support.http import Server


def test_what_is_said_becomes_a_task_and_its_end_is_heard_until_it_is_seen(shared: Server) -> None:
    ann = "a" * 64
    said = shared.ok("POST", "say", {"text": "Research the competitors", "sender_hash": ann})
    assert said["kind"] == "message"
    (read,) = shared.ok("POST", "flush", {"sender_hash": ann})["read"]
    task = read["tasks"][0]["id"]
    (claimed,) = shared.ok("POST", f"claims?scope={ann}", {"agent": "worker"})["claimed"]
    shared.ok("POST", f"tasks/{task}/done?scope={ann}", {"token": claimed["token"], "result": "there are three"})
    heard = shared.ok("GET", f"inbox?sender_hash={ann}")["notes"]
    assert any("there are three" in note["text"] for note in heard)
    assert shared.ok("GET", f"inbox?sender_hash={ann}")["notes"] == [], "they are handed out to one at a time"
    tokens = {note["id"]: note["token"] for note in heard}
    assert shared.ok("POST", "inbox/seen", {"sender_hash": ann, "tokens": tokens}) == {}
    again = shared.ok("GET", f"inbox?sender_hash={ann}&all=1")["notes"]
    assert [note["id"] for note in again] == [note["id"] for note in heard]


def test_answers_come_as_they_are_told(shared: Server) -> None:
    bob = "b" * 64
    listener = Listener(shared.port, f"inbox?sender_hash={bob}")
    assert listener.next() == ("hello", {})
    shared.ok("POST", "say", {"text": "Write the press release", "sender_hash": bob})
    shared.ok("POST", "flush", {"sender_hash": bob})
    came = listener.next()
    assert came is not None
    name, note = came
    assert (name, bool(note["token"])) == ("note", True)
    listener.close()


def test_a_command_is_previewed_and_nothing_is_changed(shared: Server) -> None:
    told = shared.ok("POST", "say", {"text": "What's the plan?", "sender_hash": "c" * 64, "preview": True})
    assert (told["kind"], told["command"]["name"], told["preview"]) == ("command", "plan", True)


def test_who_is_speaking_has_to_be_said(shared: Server) -> None:
    shared.fails(400, "INVALID_INPUT", "POST", "say", {"text": "Hello"})
