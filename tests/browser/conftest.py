"""One server per process, one browser per file, one scope per test."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from playwright.sync_api import Browser

    from dibs.desk import Desk
    from support.board import Server, Visit

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One process starts the browser and runs all of these, early: together they take a minute."""
    here = os.path.dirname(__file__)
    for item in items:
        if str(item.path).startswith(here):
            item.add_marker(pytest.mark.xdist_group("browser"))
            item.add_marker(pytest.mark.slow)


def _missing() -> str:
    """Why no page can be opened, and what to do; empty if one can."""
    if CHROMIUM is None:
        return "There is no Chromium here. Install it."
    driver = subprocess.run(
        [sys.executable, "-m", "playwright", "--version"], capture_output=True, text=True, check=False
    )
    return f"Playwright does not start here: {driver.stderr.strip()}." if driver.returncode else ""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Closed with the file, because its event loop blocks others on this thread."""
    if missing := _missing():
        pytest.fail(missing) if os.environ.get("CI") else pytest.skip(missing)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        started = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"], timeout=120_000)
        yield started
        started.close()


@pytest.fixture
def folder() -> Iterator[str]:
    with tempfile.TemporaryDirectory() as made:
        yield made


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    from support.board import Server

    with tempfile.TemporaryDirectory() as folder:
        started = Server(folder)
        yield started
        started.close()


@pytest.fixture
def scope(request: pytest.FixtureRequest) -> str:
    return str(request.node.name).replace("[", "-").rstrip("]")[:100]


@pytest.fixture
def desk(server: Server, scope: str) -> Iterator[Desk]:
    """A desk of agent Bob, who works while Anna looks at the board."""
    with server.desk(scope) as opened:
        yield opened


@pytest.fixture
def visit(browser: Browser, server: Server, scope: str) -> Iterator[Callable[..., Visit]]:
    """Opens windows, for tests that need several or special ones."""
    from support.board import Visit

    visits: list[Visit] = []

    def come(**options: Any) -> Visit:
        visits.append(Visit(browser, server, **options))
        visits[-1].scope = scope
        return visits[-1]

    yield come
    for each in visits:
        each.context.close()
        each.check()


@pytest.fixture(scope="module")
def window(browser: Browser, server: Server) -> Iterator[Visit]:
    from support.board import Visit

    visit = Visit(browser, server)
    yield visit
    visit.context.close()


@pytest.fixture
def anna(window: Visit, scope: str) -> Iterator[Visit]:
    """Anna's window, which stays open all day: each test takes it to its own scope."""
    window.scope = scope
    yield window
    window.page.unroute_all()
    window.check()
