"""Chat: reading a burst against many open tasks, acknowledging a message, and a thousand senders at once.

Reading is measured in processor time, which depends little on the machine's other load.
"""

from __future__ import annotations

import random
import resource
import subprocess
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from bench.measure import Figure, median, percentile, timed
from dibs.chat.analyst.analysis import Message, OpenTask
from dibs.chat.analyst.embedders import open_embedder
from dibs.chat.analyst.word_analyst import WordAnalyst
from dibs.chat.conversation.inbox import SenderScopes, add_message
from dibs.chat.conversation.reader import Reader, read_due
from dibs.chat.conversation.settings import Limits
from dibs.chat.steering.session import ChatSession
from dibs.core.task import Actor, Draft
from dibs.desk import Desk
from dibs.stores.sqlite.store import SqliteStore

if TYPE_CHECKING:
    from collections.abc import Callable

_OPEN, _BURST = 2_000, 50
_SENDERS, _EACH = 1_000, 10
_ROUNDS = 5
_ANN = "a" * 64

_VERBS = "write draft review order book fix build test research compare translate plan call paint clean measure".split()
_KINDS = "red old new weekly annual spare remote mobile quarterly broken internal public late northern".split()
_THINGS = (
    "invoice,landing page,supplier contract,kitchen sink,survey report,print server,tax return,newsletter,soil samples,"
    "checkout flow,garden fence,witness statement,concert tickets,data pipeline,training video,holiday rota"
).split(",")
_PLACES = "Oslo Bergen Leeds Lyon Porto Kyoto Boston Quito Accra Turin Ghent Delhi Perth Lima".split()


def run() -> list[Figure]:
    return [_loading(), *_analysing(), *_through_the_store(), *_acknowledging(), *_crowd()]


def titles(count: int, seed: int = 5) -> list[str]:
    """Requests with many shared words and few duplicates, like those of one sender."""
    pick = random.Random(seed)
    return [
        f"{pick.choice(_VERBS)} the {pick.choice(_KINDS)} {pick.choice(_THINGS)} for {pick.choice(_PLACES)} "
        f"{pick.randrange(400)}"
        for _ in range(count)
    ]


def burst(seed: int) -> list[str]:
    """Messages, of which every fifth refers to another task."""
    tied = (f"once the {_THINGS[at % len(_THINGS)]} is done, " if at % 5 == 0 else "" for at in range(_BURST))
    return [f"{tie}{title}" for tie, title in zip(tied, titles(_BURST, seed), strict=True)]


def _processor(action: Callable[[], object]) -> float:
    started = time.process_time()
    action()
    return time.process_time() - started


def _figure(what: str, seconds: float, most: float) -> Figure:
    return Figure(what, f"{seconds * 1e3:.0f} ms", f"< {most * 1e3:.0f} ms", seconds < most)


def _loading() -> Figure:
    code = (
        "import time; at = time.process_time()\n"
        "from dibs.chat.analyst.embedders import open_embedder\n"
        "open_embedder('builtin', {}).embed(['load it']); print(time.process_time() - at)"
    )
    times = [
        float(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout)
        for _ in range(_ROUNDS)
    ]
    return _figure("chat: the built-in embedder, loaded in a new process", median(times), 0.3)


def _analysing() -> list[Figure]:
    embedder = open_embedder("builtin", {})
    known = [OpenTask(str(number), title) for number, title in enumerate(titles(_OPEN))]
    said = [Message(number, text) for number, text in enumerate(burst(7))]
    analyst = WordAnalyst(embedder)
    cold = _processor(lambda: analyst.analyse(said, known))
    vectors = embedder.embed([one.title for one in known])
    familiar = [one._replace(vector=vector) for one, vector in zip(known, vectors, strict=True)]
    warm = median([_processor(lambda: analyst.analyse(said, familiar)) for _ in range(_ROUNDS)])
    what = f"chat: {_BURST} messages against {_OPEN:,} open tasks"
    return [
        _figure(f"{what}, analysed, no vector made yet", cold, 1.5),
        _figure(f"{what}, analysed", warm, 0.6),
    ]


def _through_the_store() -> list[Figure]:
    """The whole path: lease the messages, read the open tasks and their vectors, write the results."""
    with tempfile.TemporaryDirectory() as name, SqliteStore(f"{name}/dibs.db", create=True) as store:
        scopes = SenderScopes(Desk(store, by=Actor("chat")), _ANN)
        scopes.tasks.add([Draft(title) for title in titles(_OPEN)])
        embedder = open_embedder("builtin", {})
        reader = Reader(Desk(store), WordAnalyst(embedder), embedder, limits=Limits(hourly=10_000))
        times = []
        for seed in range(_ROUNDS + 1):
            for text in burst(100 + seed):
                add_message(scopes, text)
            times.append(_processor(lambda: reader.read(_ANN, now=True)))
    what = f"chat: {_BURST} messages against {_OPEN:,} open tasks, flushed on SQLite"
    return [_figure(f"{what}, no vector kept yet", times[0], 1.5), _figure(what, median(times[1:]), 0.6)]


def _acknowledging() -> list[Figure]:
    """Wall-clock time, since a person waits. Every message is on the disk before it is acknowledged."""
    with tempfile.TemporaryDirectory() as name, SqliteStore(f"{name}/dibs.db", create=True) as store:
        scopes = SenderScopes(Desk(store, by=Actor("chat")), _ANN)
        scopes.tasks.add([Draft(title) for title in titles(_OPEN)])
        embedder = open_embedder("builtin", {})
        session = ChatSession(scopes, embedder, Reader(Desk(store), WordAnalyst(embedder), embedder))
        session.say("warm up")
        times = [timed(lambda text=text: session.say(text)) for text in titles(90, 9)]  # type: ignore[misc]  # bound now, not when called
    middle, late = median(times), percentile(times, 0.99)
    told = f"{middle * 1e3:.1f} ms (p99 {late * 1e3:.1f} ms)"
    return [Figure("chat: a message acknowledged, on SQLite, p50", told, "< 20 ms", middle < 0.02)]


def _crowd() -> list[Figure]:
    """A thousand senders at once. The clock is moved past the end of all windows."""
    passed = timedelta()
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "dibs.db"
        with SqliteStore(str(path), create=True, durable=False) as real:
            start = real.now()
        with SqliteStore(str(path), durable=False, clock=lambda: start + passed) as store:
            texts = titles(_SENDERS * _EACH, 11)
            for number, text in enumerate(texts):
                add_message(SenderScopes(Desk(store, by=Actor("chat")), f"{number % _SENDERS:064x}"), text)
            passed = timedelta(minutes=1)
            embedder = open_embedder("builtin", {})
            reader = Reader(Desk(store), WordAnalyst(embedder), embedder)
            started, half, read = time.perf_counter(), 0, 0
            for read, _ in enumerate(read_due(Desk(store), reader, _raise), 1):
                half = half if read > _SENDERS // 2 else _memory()
            took, grown = time.perf_counter() - started, _memory() - half
    assert read == _SENDERS
    what = f"chat: {_SENDERS:,} senders with {_EACH} messages each, all due at once, read by one process"
    return [
        Figure(what, f"{took:.0f} s ({_SENDERS * _EACH / took:,.0f} messages/s)"),
        Figure("the same: memory taken by the second half", f"{grown / 1024:.1f} MB", "< 5 MB", grown < 5 * 1024),
    ]


def _memory() -> int:
    """The peak memory of this process, in kilobytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _raise(trouble: str) -> None:
    raise AssertionError(trouble)
