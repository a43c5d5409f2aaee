"""A server process of the board on a fresh SQLite store, and pages that look at it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from importlib.resources import files
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from playwright.sync_api import expect

from dibs.core.task import Actor
from dibs.desk import open_desk
from support.ports import reserved_port

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Dialog, Locator, Page, Route

    from dibs.desk import Desk

SOON = 120_000  # milliseconds for any action on a busy machine; time limits have separate tests
_TOAST = str(files("dibs.serve.board") / "static" / "toast.js")
_TOAST_TIMES = "{ good: 5000, bad: 12_000 }"

expect.set_options(timeout=SOON)


class Server:
    """`dibs serve` as a process. It can be stopped, and started again on the same port, which is kept for it."""

    def __init__(self, folder: str, store: str = "", **variables: str) -> None:
        self.store = store or f"sqlite:///{os.path.join(folder, 'dibs.db')}?durability=normal"
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("DIBS_")}
        self.environment |= {"DIBS_SENDER_SECRET": "a-secret-of-the-tests-" * 2, **variables}
        if not store:
            open_desk(self.store, create=True).close()
        self._reserved = reserved_port()
        self.port: int = self._reserved.getsockname()[1]
        self.process: subprocess.Popen[str] | None = None
        self.start()

    def start(self) -> None:
        order = [sys.executable, "-m", "dibs", "serve", "--store", self.store, "--port", str(self.port), "--json"]
        self.process = subprocess.Popen(order, stdout=subprocess.PIPE, text=True, env=self.environment)
        assert self.process.stdout is not None
        told = json.loads(self.process.stdout.readline())
        assert told["data"]["port"] == self.port

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        if self.process is None:
            return
        self.process.send_signal(how)
        self.process.communicate(timeout=SOON / 1000)
        self.process = None

    def close(self) -> None:
        self.stop()
        self._reserved.close()

    def desk(self, scope: str = "default", agent: str = "bob") -> Desk:
        return open_desk(self.store, scope=scope, by=Actor(agent))


class Visit:
    """A browser window on one scope of a server, and a desk of the same scope for changes by others."""

    def __init__(self, browser: Browser, server: Server, *, name: str = "anna", **options: Any) -> None:
        self.server, self.scope = server, "default"
        self.context: BrowserContext = browser.new_context(**{"viewport": {"width": 1440, "height": 900}, **options})
        self.context.set_default_timeout(SOON)
        self.context.add_init_script(f"localStorage.setItem('dibs.name', JSON.stringify({json.dumps(name)}))")
        self.page: Page = self.context.new_page()
        self.trouble: list[str] = []
        self.context.route(re.compile(f"^(?!{re.escape(server.url)})"), self._moved_elsewhere)
        self.context.route("**/toast.js", _lasting_toasts)
        self.page.on("pageerror", lambda error: self.trouble.append(f"error: {error}"))
        self.page.on("console", self._heard)
        self.page.on("dialog", self._asked)

    def _moved_elsewhere(self, route: Any) -> None:
        """Nothing but this server is ever asked for anything."""
        self.trouble.append(f"asked for {route.request.url}")
        route.abort()

    def _asked(self, dialog: Dialog) -> None:
        """The board uses its own dialogs, so a dialog of the browser is an error."""
        self.trouble.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _heard(self, message: ConsoleMessage) -> None:
        """A refusal is an answer, and servers go away in some tests; what the page itself does wrong is trouble."""
        if message.type == "error" and "Failed to load resource" not in message.text:
            self.trouble.append(f"console: {message.text}")

    def at(self, view: str = "board", **where: str) -> Page:
        self.page.goto(f"{self.server.url}#/{view}?{urlencode({'scope': self.scope, **where})}")
        shown = self.page.locator(f'.page[data-scope="{self.scope}"]', has=self.page.locator(f"main.{view}"))
        shown.locator(".connection.live").wait_for()
        return self.page

    def card(self, task: str) -> Locator:
        return self.page.locator(f'.card[data-id="{task}"]')

    def in_column(self, column: str, task: str) -> Locator:
        return self.page.locator(f'.column.{column} .card[data-id="{task}"]')

    def line(self, column: str = "ready") -> list[str]:
        found: list[str] = self.page.locator(f".column.{column} .card").evaluate_all(
            "cards => cards.map(c => c.dataset.id)"
        )
        return found

    def open(self, task: str) -> Locator:
        self.card(task).locator(".title").click()
        panel = self.page.locator(".panel")
        expect(panel.locator(".history li").first).to_be_visible()
        return panel

    def act(self, task: str, label: str) -> None:
        """By a button of the task's panel, or of its menu."""
        panel = self.open(task) if self.page.locator(".panel").count() == 0 else self.page.locator(".panel")
        button = panel.locator(".actions").get_by_role("button", name=label, exact=True)
        if button.count() == 0:
            panel.get_by_role("button", name="More actions").click()
        button.click()

    def confirm(self, **fields: str) -> None:
        """Fill in the dialog, and confirm it."""
        dialog = self.page.get_by_role("dialog")
        for name, value in fields.items():
            field = dialog.locator(f"#field-{name}")
            if field.evaluate("field => field.tagName") == "SELECT":
                field.select_option(value)
            else:
                field.fill(value)
        dialog.locator("button[type=submit]").click()

    def check(self) -> None:
        """After every test: no script failed, no other host was asked, and no injected code ran."""
        trouble, self.trouble = self.trouble, []
        assert not trouble, trouble


def _lasting_toasts(route: Route) -> None:
    """Toasts stay until they are dismissed: a stalled test would miss one that goes after five seconds."""
    with open(_TOAST, encoding="utf-8") as module:
        source = module.read()
    assert _TOAST_TIMES in source
    route.fulfill(
        body=source.replace(_TOAST_TIMES, "{ good: 3_600_000, bad: 3_600_000 }"), content_type="text/javascript"
    )


def figure(text: str) -> None:
    """Print a measured number, visible with -s or -rP."""
    print(text)  # noqa: T201 - it prints a measurement
