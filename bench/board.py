"""The board: how soon 500 tasks are on the screen, how quickly a graph of 2,000 answers, and what the page weighs."""

from __future__ import annotations

import gzip
import random
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import dibs
from bench.measure import Figure, median, percentile
from dibs.core.task import Draft, Link
from dibs.desk import open_desk

if TYPE_CHECKING:
    from playwright.sync_api import Browser

_CARDS = 500
_NODES = 2000
_VISITS = 9
_STATIC = Path(dibs.__file__).parent / "serve" / "board" / "static"


def run() -> list[Figure]:
    sys.path.append(str(Path(__file__).parents[1] / "tools"))  # tools are no package
    from board_page import chromium, serving

    with tempfile.TemporaryDirectory() as folder:
        store = f"sqlite:///{folder}/desk.db"
        _fill(store)
        with serving(store) as address, chromium() as browser:
            return [_first_paint(browser, address), *_drawing(browser, address), _weight()]


def _fill(store: str) -> None:
    choose = random.Random(7)
    pairs = {(number, max(0, number - choose.randint(1, 90))) for number in range(40, _NODES) for _ in range(2)}
    links = [Link(f"t{task:04}", f"t{on:04}") for task, on in pairs]
    with open_desk(store, create=True) as desk:
        desk.add([Draft(f"Task number {number}", id=f"t{number}") for number in range(_CARDS)])
        drafts = [Draft(f"Task {number} of a long plan", id=f"t{number:04}") for number in range(_NODES)]
        desk.at("graph").add(drafts, links)


def _first_paint(browser: Browser, address: str) -> Figure:
    """A window that has been there before, as one that is kept open; each visit reads everything again."""
    from board_page import FIRST_CARD

    page = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
    page.add_init_script(FIRST_CARD)
    page.goto(address)
    took = []
    for _ in range(_VISITS):
        page.reload()
        took.append(page.evaluate("window.firstCard"))
    what = f"board, {_CARDS} tasks on the screen after"
    return Figure(what, f"{median(took):.0f} ms (worst {max(took):.0f} ms)", "< 500 ms", median(took) < 500)


def _drawing(browser: Browser, address: str) -> list[Figure]:
    from board_page import ANSWERED, HOVER, PAN, ZOOM

    page = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
    page.goto(f"{address}/#/graph?scope=graph")
    page.locator(f'canvas.drawing[data-drawn="{_NODES}"]').wait_for()
    figures = []
    for name, inputs in {"pointing": HOVER, "zooming": ZOOM, "panning": PAN}.items():
        took = page.evaluate(ANSWERED, inputs)
        late = percentile(took, 0.95)
        what = f"board, {name} in a graph of {_NODES} tasks, p95"
        figures.append(Figure(what, f"{late:.0f} ms (p50 {median(took):.0f} ms)", "< 100 ms", late < 100))
    return figures


def _weight() -> Figure:
    packed = [len(gzip.compress(path.read_bytes())) for path in _STATIC.rglob("*.*") if "LICENSE" not in path.name]
    weight = sum(packed) / 1024
    return Figure("board, weight of the page, gzipped", f"{weight:.0f} KB", "< 300 KB", weight < 300)
