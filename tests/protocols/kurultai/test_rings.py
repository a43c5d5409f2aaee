"""Processes add the dependencies of a cycle at the same time: exactly one is refused."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from dibs.core.graph import find_cycle
from dibs.core.task import Draft
from dibs.desk import Desk
from dibs.stores.opening import open_store
from support.kurultai import ANN

from .conftest import KINDS

if TYPE_CHECKING:
    from collections.abc import Iterator

WORKER = Path(__file__).with_name("ring_worker.py")
ROUNDS = 200 if os.environ.get("DIBS_TORTURE") else 6


@pytest.fixture(params=KINDS)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    yield from {"sqlite": _sqlite, "postgres": _postgres, "neo4j": _neo4j}[request.param](tmp_path)


def _sqlite(folder: Path) -> Iterator[str]:
    url = f"sqlite:///{folder / 'rings.db'}"
    open_store(url, create=True).close()
    yield url


def _postgres(_folder: Path) -> Iterator[str]:
    from support.postgres_schemas import ServerClock, fresh_schema
    from support.postgres_server import shared_url

    clock, server = ServerClock(), shared_url()  # the schema is the clock's for as long as that lives
    yield f"{server}{'&' if '?' in server else '?'}schema={fresh_schema(clock)}"


def _neo4j(_folder: Path) -> Iterator[str]:
    from support.neo4j import fresh_desk, shared_url

    yield f"{shared_url()}?desk={fresh_desk()}"


class Worker(NamedTuple):
    process: subprocess.Popen[str]

    def tell(self, *words: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(" ".join(words) + "\n")
        self.process.stdin.flush()

    def answer(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()


@pytest.fixture
def workers(url: str, count: int) -> Iterator[list[Worker]]:
    with ExitStack() as stack:
        started = [
            Worker(
                stack.enter_context(
                    subprocess.Popen(
                        [sys.executable, str(WORKER), url, ANN],
                        stdin=subprocess.PIPE,
                        stdout=subprocess.PIPE,
                        text=True,
                    )
                )
            )
            for _ in range(count)
        ]
        assert [worker.answer() for worker in started] == ["ready"] * count
        yield started
        for worker in started:
            assert worker.process.stdin is not None
            worker.process.stdin.close()
            assert worker.process.wait(120) == 0


@pytest.mark.parametrize("count", [2, 3, 4])
def test_concurrent_cycle_refuses_exactly_one_dependency(url: str, count: int, workers: list[Worker]) -> None:
    with Desk(open_store(url), scope=ANN) as desk:
        names = [[f"r{number}-{each}" for each in range(count)] for number in range(ROUNDS)]
        desk.add([Draft("part of a ring", id=name) for ring in names for name in ring])
        for number, ring in enumerate(names):
            for each, worker in enumerate(workers):
                worker.tell(ring[each], ring[(each + 1) % count], ("blocks", "feeds_into")[number % 2])
            answers = [worker.answer() for worker in workers]
            assert sorted(answers) == ["added"] * (count - 1) + ["cycle"]
        assert find_cycle(desk.graph().prerequisites()) is None
        assert desk.check() == []
