"""Events as they happen: each one, once, in its scope, also to who comes back after the server was gone."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING, Any

import psycopg2

from dibs.core.task import Actor, Draft
from dibs.desk import Desk, open_desk
from dibs.serve.live import Follower, cursor_from
from dibs.stores.sqlite.store import SqliteStore
from support.http import PATIENCE, Listener, Server, new_store
from support.postgres_schemas import ServerClock, fresh_schema
from support.postgres_server import shared_url

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def add(server: Server, scope: str, *tasks: str) -> None:
    for task in tasks:
        server.ok("POST", f"tasks?scope={scope}", {"tasks": [{"title": task, "id": task}]})


def heard(listener: Listener, number: int) -> list[str]:
    return [listener.event()["task"] for _ in range(number)]


def test_stream_starts_now_and_has_only_its_scope(shared: Server) -> None:
    add(shared, "streams", "before")
    here, there = (Listener(shared.port, f"events?scope={scope}") for scope in ("streams", "elsewhere"))
    add(shared, "streams", "one")
    add(shared, "elsewhere", "two")
    assert (heard(here, 1), heard(there, 1)) == (["one"], ["two"])
    here.close()
    there.close()


def test_stream_has_events_written_past_the_server(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    server = Server(store)
    listener = Listener(server.port, "events")
    with open_desk(store, by=Actor("cli")) as other:
        other.add([Draft("Beside", id="beside")])
    assert listener.event()["task"] == "beside"
    listener.close()
    server.end()


def test_listener_misses_and_repeats_nothing_after_a_restart(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    server = Server(store)
    listener = Listener(server.port, "events")
    add(server, "default", "a", "b")
    assert heard(listener, 2) == ["a", "b"]
    server.end(signal.SIGKILL)
    with open_desk(store) as other:
        other.add([Draft("c", id="c")])
    server = Server(store)
    again = Listener(server.port, "events", {"Last-Event-ID": listener.id})
    add(server, "default", "d")
    assert heard(again, 2) == ["c", "d"]
    assert server.ok("GET", f"events?after={listener.id}")["events"][0]["task"] == "c"
    assert "Traceback" not in server.end(), "listeners are told to go, and it ends"
    assert again.next() is None
    again.close()
    listener.close()


def test_stream_can_be_limited_to_one_task(shared: Server) -> None:
    add(shared, "one-task", "mine", "other")
    listener = Listener(shared.port, "events?scope=one-task&ref=mi")
    shared.ok("POST", "tasks/other/pause?scope=one-task", {})
    shared.ok("POST", "tasks/mine/pause?scope=one-task", {})
    assert (event := listener.event())["task"] == "mine"
    assert event["verb"] == "pause"
    listener.close()


def test_output_is_streamed_live_until_the_attempt_ends(shared: Server) -> None:
    add(shared, "printing", "a")
    (claimed,) = shared.ok("POST", "claims?scope=printing", {"agent": "ann", "ids": ["a"]})["claimed"]
    token, said = claimed["token"], "tasks/a/output?scope=printing"
    shared.ok("POST", said, {"token": token, "start": 0, "text": "one\n"})
    listener = Listener(shared.port, said)
    assert listener.next() == ("output", {"attempt": 1, "start": 0, "text": "one\n"})
    shared.ok("POST", said, {"token": token, "start": 10, "text": "two\n"})
    assert listener.next() == ("output", {"attempt": 1, "start": 10, "text": "two\n"})
    again = Listener(shared.port, said, {"Last-Event-ID": "1:4"})
    assert again.next() == ("output", {"attempt": 1, "start": 10, "text": "two\n"})
    shared.ok("POST", "tasks/a/done?scope=printing", {"token": token})
    assert [each.next() for each in (listener, again)] == [("end", {"attempt": 1, "end": 14})] * 2
    assert shared.ask("GET", "tasks/zz/output?scope=printing", headers={"Accept": "text/event-stream"}).status == 404
    listener.close()
    again.close()


def test_stream_of_an_internal_scope_is_refused(shared: Server) -> None:
    headers = {"Accept": "text/event-stream"}
    assert shared.ask("GET", "events?scope=.inbox.ann", headers=headers).status == 400


def test_pages_of_events_lead_to_all_of_them(shared: Server) -> None:
    add(shared, "pages", *"abcde")
    found: list[str] = []
    after, page = "0", [None]
    while page:
        answer = shared.ok("GET", f"events?scope=pages&limit=2&after={after}")
        page, after = answer["events"], answer["next"]
        found += [event["task"] for event in page]
    assert found == list("abcde")


def _late(schema: str) -> tuple[Any, int]:
    """A transaction that has taken a number and has not committed."""
    connection = psycopg2.connect(shared_url(), options=f"-c search_path={schema}")
    cursor = connection.cursor()
    cursor.execute(
        "INSERT INTO event (at, scope, task, verb, outcome, detail) "
        "VALUES (now(), 'default', 'late', 'comment', 'ok', '{}') RETURNING seq"
    )
    ((number,),) = cursor.fetchall()
    return connection, number


def test_late_lower_number_is_still_sent() -> None:
    """On PostgreSQL, numbers are given before the commit: this forces the order that a lucky test would miss."""
    clock = ServerClock()
    schema = fresh_schema(clock)
    url = f"{shared_url()}{'&' if '?' in shared_url() else '?'}schema={schema}"
    with open_desk(url) as desk:
        desk.add([Draft("first", id="first")])
        follower = Follower(lambda: open_desk(url), clock=lambda: 0.0)
        assert list(follower.look()) == []
        late, number = _late(schema)
        desk.add([Draft("second", id="second")])
        (second,) = follower.look()
        assert second.event.task == "second"
        assert str(second.place) == f"{second.event.seq}~{number}"
        late.commit()
        (found,) = follower.look()
        assert (found.event.task, found.event.seq, str(found.place)) == ("late", number, str(second.event.seq))
        given_up, _ = _late(schema)
        desk.add([Draft("third", id="third")])
        (third,) = follower.look()
        given_up.rollback()
        assert list(follower.look()) == [], "one that nobody wrote keeps nobody"
        follower.leave()
        _served_after(url, second.place)
        assert third.place.missing
        late.close()
        given_up.close()


def _served_after(url: str, place: object) -> None:
    """A server started later sends the missing number to a listener that returns with its cursor."""
    server = Server(url)
    listener = Listener(server.port, "events", {"Last-Event-ID": str(place)})
    assert heard(listener, 2) == ["late", "third"]
    answer = server.ok("GET", f"events?after={place}")
    assert [event["task"] for event in answer["events"]] == ["late", "third"]
    assert cursor_from(answer["next"]).covers(cursor_from(str(place)).high)
    listener.close()
    server.end()


def test_missing_number_is_given_up_after_a_while(tmp_path: Path) -> None:
    now = [0.0]
    path = str(tmp_path / "dibs.db")
    with SqliteStore(path, create=True) as store:
        desk = Desk(store)
        desk.add([Draft("a", id="a")])
        follower = Follower(lambda: open_desk(path), clock=lambda: now[0])
        list(follower.look())
        desk.add([Draft("b", id="b")])
        store._database._connection.execute("UPDATE event SET seq = 7 WHERE seq = 2")
        (entry,) = follower.look()
        assert entry.place.missing == ((2, 6),)
        now[0] += 3600
        list(follower.look())
        assert follower.place.missing == ()
        follower.leave()


def test_slow_listener_catches_up_from_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a network: more events arrive than the hub keeps, while no listener reads."""
    from dibs.serve import live
    from dibs.serve.desks import Desks
    from dibs.serve.live import Hub, follow
    from dibs.serve.metrics import Metrics

    path = str(tmp_path / "dibs.db")
    open_desk(path, create=True).close()

    async def scene() -> list[str]:
        desks, hub = Desks(lambda: open_desk(path)), Hub(lambda: open_desk(path), Metrics())
        hub.start()
        await hub.refresh()
        stream = follow(hub, desks, "default", None, None)
        parts = [await anext(stream)]
        for number in range(10):
            await desks.borrow(lambda desk, number=number: desk.add([Draft("x", id=f"t{number}")]))  # type: ignore[misc]
        await hub.refresh()
        assert hub.since(0) is None, "more has happened than is kept"
        parts += [await anext(stream) for _ in range(10)]
        hub.close()
        await asyncio.to_thread(hub.join)
        await asyncio.to_thread(desks.close)
        return parts

    monkeypatch.setattr(live, "_KEPT", 3)
    monkeypatch.setattr(live, "_REFRESH", PATIENCE)  # a busy machine may take longer than the usual limit
    parts = asyncio.run(scene())
    assert [f'"task": "t{number}"' in part for number, part in enumerate(parts[1:])] == [True] * 10
