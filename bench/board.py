"""The board: first paint with 500 and 20,000 tasks, scrolling, a busy desk, memory, a graph of 2,000, its weight."""

from __future__ import annotations

import gzip
import random
import sys
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import dibs
from bench.measure import Figure, median, percentile
from dibs.core.task import Draft, Edit, Link
from dibs.desk import open_desk

if TYPE_CHECKING:
    from playwright.sync_api import Browser

_CARDS = 500
_NODES = 2000
_VISITS = 9
_MANY = 20_000
_RATE, _BUSY = 50, 5.0  # changes a second, and for how many
_STATIC = Path(dibs.__file__).parent / "serve" / "board" / "static"


def run() -> list[Figure]:
    sys.path.append(str(Path(__file__).parents[1] / "tools"))  # tools are no package
    from board_page import chromium, serving

    with tempfile.TemporaryDirectory() as folder:
        store = f"sqlite:///{folder}/desk.db"
        _fill(store)
        with serving(store) as address, chromium() as browser:
            first = [_first_paint(browser, address, scope, number) for scope, number in _SCOPES]
            return [*first, *_at_scale(browser, address, store), *_drawing(browser, address), _weight()]


_SCOPES = (("default", _CARDS), ("many", _MANY))


def _fill(store: str) -> None:
    choose = random.Random(7)
    pairs = {(number, max(0, number - choose.randint(1, 90))) for number in range(40, _NODES) for _ in range(2)}
    links = [Link(f"t{task:04}", f"t{on:04}") for task, on in pairs]
    with open_desk(store, create=True) as desk:
        desk.add([Draft(f"Task number {number}", id=f"t{number}") for number in range(_CARDS)])
        drafts = [Draft(f"Task {number} of a long plan", id=f"t{number:04}") for number in range(_NODES)]
        desk.at("graph").add(drafts, links)
        many = [
            Draft(f"Task number {number} of very many", id=f"m{number:05}", labels=("bulk",)) for number in range(_MANY)
        ]
        for place in range(0, _MANY, 2000):
            desk.at("many").add(many[place : place + 2000])


def _first_paint(browser: Browser, address: str, scope: str, number: int) -> Figure:
    """A window that has been there before, as one that is kept open; each visit reads everything again."""
    from board_page import FIRST_CARD

    page = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
    page.add_init_script(FIRST_CARD)
    page.goto(f"{address}/#/board?scope={scope}")
    took = []
    for _ in range(_VISITS):
        page.reload()
        took.append(page.evaluate("window.firstCard"))
    what = f"board, {number} tasks: the first are on the screen after"
    return Figure(what, f"{median(took):.0f} ms (worst {max(took):.0f} ms)", "< 500 ms", median(took) < 500)


# How long frames take while something happens, in milliseconds.
_FRAMES = """async ([frames, step]) => {
  const list = document.querySelector('.column.ready .cards');
  const took = [];
  let last = await new Promise(requestAnimationFrame);
  for (let frame = 0; frame < frames; frame += 1) {
    list.scrollTop += step;
    const now = await new Promise(requestAnimationFrame);
    took.push(now - last);
    last = now;
  }
  return took;
}"""
_LOAD_ALL = """async () => {
  const { hasMore, readMore, tasks } = await import('./store.js');
  while (hasMore(['ready'])) await readMore(['ready']);
  return tasks.value.size;
}"""


def _at_scale(browser: Browser, address: str, store: str) -> list[Figure]:
    page = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
    page.goto(f"{address}/#/board?scope=many")
    page.locator(".connection.live").wait_for()
    loaded = page.evaluate(_LOAD_ALL)
    scrolled = page.evaluate(_FRAMES, [240, 120])
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable")
    session.send("HeapProfiler.collectGarbage")
    metrics = {one["name"]: one["value"] for one in session.send("Performance.getMetrics")["metrics"]}
    used = metrics["JSHeapUsedSize"] / (1 << 20)
    stop = threading.Event()
    writer = threading.Thread(target=_keep_busy, args=(store, stop))
    writer.start()
    busy = page.evaluate(_FRAMES, [int(60 * _BUSY), 2])
    stop.set()
    writer.join()
    page.context.close()
    return [
        _frames(f"board, scrolling through {loaded} tasks", scrolled),
        _frames(f"board, scrolling at {_RATE} changes a second", busy),
        Figure(f"board, memory with {loaded} tasks read", f"{used:.0f} MB", "< 150 MB", used < 150),
    ]


def _keep_busy(store: str, stop: threading.Event) -> None:
    with open_desk(store, scope="many") as desk:
        number = 0
        while not stop.wait(1 / _RATE):
            desk.edit(f"m{number % _MANY:05}", Edit(category=f"c{number % 7}"))
            number += 1


def _frames(what: str, took: list[float]) -> Figure:
    rate = 1000 * len(took) / sum(took)
    slow = f"p95 {percentile(took, 0.95):.0f} ms, longest {max(took):.0f} ms"
    return Figure(what, f"{rate:.0f} frames/s ({slow})", "> 50 frames/s", rate > 50)


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
