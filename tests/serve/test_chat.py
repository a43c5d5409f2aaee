"""The chat over HTTP: messages become tasks, notes repeat until they are marked as seen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.http import Listener, Server, new_store

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_message_becomes_a_task_and_its_note_repeats_until_seen(shared: Server) -> None:
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


def test_notes_are_streamed_as_they_come(shared: Server) -> None:
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


def test_previewed_command_changes_nothing(shared: Server) -> None:
    told = shared.ok("POST", "say", {"text": "What's the plan?", "sender_hash": "c" * 64, "preview": True})
    assert (told["kind"], told["command"]["name"], told["preview"]) == ("command", "plan", True)


def test_message_without_a_sender_is_refused(shared: Server) -> None:
    shared.fails(400, "INVALID_INPUT", "POST", "say", {"text": "Hello"})


def test_chat_works_on_a_new_project_without_any_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DIBS_SENDER_SECRET", raising=False)
    store = new_store(tmp_path)
    scopes = []
    for _ in range(2):  # also after a restart, the sender is the same
        server = Server(store)
        server.ok("POST", "say", {"text": "Research the competitors", "sender": "anna"})
        scopes.append(server.ok("GET", "inbox?sender=anna")["scope"])
        server.end()
    assert len(set(scopes)) == 1
    (secret,) = tmp_path.rglob("sender-secret")
    assert secret.stat().st_mode & 0o777 == 0o600
