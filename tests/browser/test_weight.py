"""The page is light, quick, and all of it is in the package."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
import zipfile
from importlib.resources import files
from typing import TYPE_CHECKING

import dibs
from board_page import FIRST_CARD
from dibs.core.task import Draft
from support.board import figure

if TYPE_CHECKING:
    from collections.abc import Callable

    from dibs.desk import Desk
    from support.board import Visit

_STATIC = str(files("dibs.serve.board") / "static")
_HEAVIEST = 160 << 10  # bytes, gzipped; the promise is 300 KB
_FIRST_PAINT = 500.0  # milliseconds with 500 tasks
_MARGIN = 20  # a machine may be busy with other tests; the bench has the figure of a quiet one


def static_files() -> list[str]:
    return [os.path.join(folder, name) for folder, _, names in os.walk(_STATIC) for name in names]


def test_the_whole_page_is_light() -> None:
    def packed(path: str) -> int:
        with open(path, "rb") as file:
            return len(gzip.compress(file.read()))

    weight = sum(packed(path) for path in static_files() if "LICENSE" not in path)
    figure(f"the page weighs {weight / 1024:.0f} KB gzipped")
    assert weight < _HEAVIEST


def test_modules_are_small_and_have_their_licences_beside_them() -> None:
    for path in static_files():
        if path.endswith(".js") and "vendor" not in path:
            with open(path, encoding="utf-8") as module:
                assert len(module.readlines()) < 300, path
    vendored = os.listdir(os.path.join(_STATIC, "vendor"))
    assert {"LICENSE.preact", "LICENSE.htm", "LICENSE.preact-signals", "LICENSE.preact-signals-core"} <= set(vendored)


def test_every_module_is_preloaded() -> None:
    """One that is found only when another has been read costs a way to the server and back."""
    with open(os.path.join(_STATIC, "index.html"), encoding="utf-8") as page:
        told = page.read()
    modules = {os.path.relpath(path, _STATIC) for path in static_files() if path.endswith(".js")} - {"app.js"}
    assert {module for module in modules if f'"modulepreload" href="./{module}"' in told} == modules


def test_the_wheel_holds_the_board(folder: str) -> None:
    root = os.path.join(os.path.dirname(dibs.__file__), os.pardir, os.pardir)
    build = f"import os; os.chdir({root!r}); import hatchling.build as b; print(b.build_wheel({folder!r}))"
    told = subprocess.run([sys.executable, "-c", build], check=True, capture_output=True, text=True)
    with zipfile.ZipFile(os.path.join(folder, told.stdout.split()[-1])) as wheel:
        names = set(wheel.namelist())
    for path in static_files():
        assert f"dibs/serve/board/static/{os.path.relpath(path, _STATIC)}" in names


def test_five_hundred_tasks_are_on_the_screen_at_once(desk: Desk, visit: Callable[..., Visit]) -> None:
    desk.add([Draft(f"Task number {number}", id=f"t{number:03}", category="bulk") for number in range(500)])
    anna = visit()
    anna.context.add_init_script(FIRST_CARD)
    anna.at()
    took = []
    for _ in range(3):
        anna.page.reload()
        took.append(anna.page.evaluate("window.firstCard"))
    figure(f"500 tasks were on the screen after {min(took):.0f} ms")
    assert min(took) < _FIRST_PAINT * _MARGIN
