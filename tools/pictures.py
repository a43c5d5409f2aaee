"""Take the pictures of the board and of `dibs top` for the pages: `make pictures`. They show `tools/board_story.py`.

It starts a server on a fresh store, and Chromium. Look at the pictures before you commit them.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import termios
from io import StringIO
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.console import Console
from rich.terminal_theme import DIMMED_MONOKAI
from rich.text import Text

from board_page import chromium, serving
from board_story import CHAT, tell
from dibs.desk import open_desk

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

HOME = os.path.join(os.path.dirname(__file__), os.pardir, "docs", "pictures")
HEAVIEST = 300_000  # bytes
_COLUMNS, _LINES = 110, 34
_PAGE = """<body style="margin:0"><pre style="margin:0;padding:20px 24px;display:inline-block;border-radius:10px;
background:#14161b;color:#d8dae0;font:14px/1.18 'DejaVu Sans Mono',monospace">{code}</pre></body>"""


class Picture(NamedTuple):
    """`where` is what the address says after the scope."""

    name: str
    view: str
    where: str = ""
    dark: bool = False
    size: tuple[int, int] = (1440, 900)


PICTURES = (
    Picture("board", "board"),
    Picture("board-dark", "board", dark=True),
    Picture("task", "board", "task=count"),
    Picture("needs", "needs", size=(1240, 620)),
    Picture("list", "list", "group=status", size=(1240, 760)),
    Picture("timeline", "timeline", "since=15m", size=(1240, 620)),
    Picture("graph", "graph"),
    Picture("agents", "agents", size=(1240, 720)),
    Picture("chat", "chat", size=(1240, 760)),
    Picture("phone", "board", size=(390, 780)),
)


def main() -> None:
    os.makedirs(HOME, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        store = f"sqlite:///{os.path.join(folder, 'dibs.db')}"
        with open_desk(store, create=True, scope="larch") as desk:
            tell(desk)
        with serving(store, "larch") as address, chromium() as browser:
            for picture in PICTURES:
                weigh(picture.name, take(browser, address, picture))
            weigh("terminal", take_terminal(browser, store))


def weigh(name: str, taken: int) -> None:
    print(f"{name}: {taken // 1024} KB")
    if taken > HEAVIEST:
        raise SystemExit(f"{name} is too heavy.")


def take(browser: Browser, address: str, picture: Picture) -> int:
    width, height = picture.size
    options: dict[str, Any] = {"viewport": {"width": width, "height": height}}
    context = browser.new_context(color_scheme="dark" if picture.dark else "light", reduced_motion="reduce", **options)
    context.add_init_script("localStorage['dibs.name'] = '\"anna\"'; localStorage['dibs.sender'] ??= '\"anna\"'")
    page = context.new_page()
    page.goto(f"{address}/#/{picture.view}?scope=larch&{picture.where}")
    page.wait_for_selector(".connection.live")
    if picture.view == "chat":
        converse(page)
    page.wait_for_timeout(1200)  # for the drawing, and a second of the countdowns
    path = os.path.join(HOME, f"{picture.name}.png")
    page.screenshot(path=path)
    context.close()
    return os.path.getsize(path)


def take_terminal(browser: Browser, store: str) -> int:
    """What a terminal shows of `dibs top`, drawn by the browser."""
    console = Console(record=True, width=_COLUMNS, file=StringIO())
    console.print(Text.from_ansi(on_a_terminal("top", "--once", "--store", store, "--scope", "larch")))
    page = browser.new_page(device_scale_factor=1.5)
    page.set_content(console.export_html(theme=DIMMED_MONOKAI, inline_styles=True, code_format=_PAGE))
    path = os.path.join(HOME, "terminal.png")
    page.locator("pre").screenshot(path=path)
    page.close()
    return os.path.getsize(path)


def on_a_terminal(*words: str) -> str:
    """What `dibs` writes when it writes to a terminal of that size."""
    ours, theirs = os.openpty()
    termios.tcsetwinsize(theirs, (_LINES, _COLUMNS))
    environment = {**os.environ, "TERM": "xterm-256color"}
    with subprocess.Popen(
        [sys.executable, "-m", "dibs", *words], stdin=theirs, stdout=theirs, stderr=theirs, env=environment
    ):
        os.close(theirs)
        told = b"".join(iter(lambda: _read(ours), b""))
    os.close(ours)
    return told.decode().replace("\r", "").rstrip()


def _read(terminal: int) -> bytes:
    """Nothing, once the writer has closed: Linux reports that as an error."""
    try:
        return os.read(terminal, 65536)
    except OSError:
        return b""


def converse(page: Page) -> None:
    for words, button in CHAT:
        before = page.locator(".entry.desk, .entry.preview").count()
        if words:
            page.get_by_label("Your message").fill(words)
        page.get_by_role("button", name=button, exact=True).click()
        page.wait_for_function(
            "count => document.querySelectorAll('.entry.desk, .entry.preview').length > count", arg=before
        )


if __name__ == "__main__":
    main()
