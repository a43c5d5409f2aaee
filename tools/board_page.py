"""Measurements of the board in Chromium, against a server process."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from playwright.sync_api import sync_playwright

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser

# To be there before the page: when the first picture with a card in it stood on the screen, by the page's own clock.
FIRST_CARD = """window.firstCard = new Promise(resolve => {
  const seen = new MutationObserver(() => {
    if (!document.querySelector('.card')) return;
    seen.disconnect();
    requestAnimationFrame(() => setTimeout(() => resolve(performance.now())));
  });
  seen.observe(document, { childList: true, subtree: true });
})"""

# Of inputs to the drawing, as [name, x, y, more]: after how many milliseconds each was to be seen on the screen.
ANSWERED = """async (inputs) => {
  const canvas = document.querySelector('canvas.drawing');
  const frame = canvas.getBoundingClientRect();
  canvas.setPointerCapture = () => {}; // made-up pointers cannot be captured
  const painted = () => new Promise(done => requestAnimationFrame(() => setTimeout(done)));
  const took = [];
  for (const [name, x, y, more] of inputs) {
    await painted();
    const began = performance.now();
    const place = { clientX: frame.left + x, clientY: frame.top + y };
    const at = { ...place, bubbles: true, cancelable: true, pointerId: 1, ...more };
    const Kind = name === 'wheel' ? WheelEvent : PointerEvent;
    canvas.dispatchEvent(new Kind(name, at));
    await painted();
    took.push(performance.now() - began);
  }
  return took;
}"""

Inputs = list[tuple[str, int, int, dict[str, int]]]

HOVER: Inputs = [("pointermove", 100 + 11 * step, 200 + 5 * step, {}) for step in range(60)]
ZOOM: Inputs = [("wheel", 700, 400, {"deltaY": -80 if step < 15 else 60}) for step in range(30)]  # noqa: PLR2004 - half
PAN: Inputs = [
    ("pointerdown", 700, 400, {"button": 0}),
    *(("pointermove", 700 + 9 * step, 400 + 6 * step, {}) for step in range(1, 30)),
    ("pointerup", 960, 570, {}),
]


@contextmanager
def serving(store: str, scope: str = "default") -> Iterator[str]:
    """The address of a server on a store."""
    order = [sys.executable, "-m", "dibs", "serve", "--store", store, "--scope", scope, "--port", "0", "--json"]
    environment = {**os.environ, "DIBS_SENDER_SECRET": "of-this-tool-and-nobody-else-at-all"}
    with subprocess.Popen(order, stdout=subprocess.PIPE, text=True, env=environment) as server:
        try:
            yield json.loads(server.stdout.readline() if server.stdout else "")["data"]["url"]
        finally:
            server.terminate()


@contextmanager
def chromium() -> Iterator[Browser]:
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        yield browser
        browser.close()
