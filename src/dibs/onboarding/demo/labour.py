"""The work of the demo's agents: `python -m dibs.onboarding.demo.labour SPEED PAGES`, a worker's command.

It writes small programs that compute tides, runs them and their tests, draws curves, or writes pages that build on the
results of earlier tasks; commits its files; and prints the result. The story gives its duration. Where the story asks
for it, its first test fails, or it asks a person for help through `dibs block` or `dibs review`.
"""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
import time
from typing import Any

USUAL = 8.0  # seconds for tasks without a time in the story
_LOOKING, _CHECKING = 0.6, 0.3  # shares of that time
_MOON, _SUN = 12.42, 12.0  # hours of their tides

_PROGRAM = '''"""{title}."""

import math

STEP = 60  # minutes


def level(hours: float) -> float:
    """The water above chart datum in metres: a tide of the moon and one of the sun."""
    moon = {moon} * math.cos(2 * math.pi * hours / 12.42)
    sun = {sun} * math.cos(2 * math.pi * hours / {period})
    return round({mean} + moon + sun, 2)


def day() -> list[tuple[float, float]]:
    return [(step * STEP / 60, level(step * STEP / 60)) for step in range(24 * 60 // STEP)]


if __name__ == "__main__":
    for hour, height in day():
        print(f"{{hour:05.2f}} h  {{height:5.2f}} m  " + "~" * round(12 * height))
'''
_TEST = '''"""{title}: what has to hold."""

import unittest

import {name}


class Tides(unittest.TestCase):
    def test_level_stays_between_lowest_and_highest_tide(self) -> None:
        self.assertTrue(all({low} <= height <= {high} for _, height in {name}.day()))

    def test_two_high_tides_a_day(self) -> None:
        heights = [height for _, height in {name}.day()]
        highs = [each for each in zip(heights, heights[1:], heights[2:]) if each[1] > each[0] and each[1] >= each[2]]
        self.assertIn(len(highs), (1, 2))

    def test_sun_comes_back_after_twelve_hours(self) -> None:
        self.assertEqual({name}.level(0), round({mean} + {moon} + {sun}, 2))
        self.assertAlmostEqual({name}.level(298.08), {name}.level(0), delta=0.2)


if __name__ == "__main__":
    unittest.main(verbosity=2)
'''


def main(speed: float, pages: str) -> int:
    task = json.load(sys.stdin)
    told: dict[str, Any] = task.get("extra", {}).get("demo", {})
    seconds = told.get("takes", USUAL) / speed
    fails = task["attempt"] == 1 and "fail" in told
    made = _program(task, seconds, broken=fails) if _codes(task) else _page_of(task, told, seconds)
    _commit(task["title"])
    if fails:
        print(told["fail"], file=sys.stderr)  # noqa: T201 - a command reports its reason on stderr
        return 1
    if task["attempt"] == 1 and "block" in told:
        return _dibs("block", "--reason", told["block"], "--action", told["action"])
    result = {"summary": told.get("gives", f"{task['title']}: done."), "page": _page(task, told, pages), "files": made}
    if "review" in told:
        return _dibs("review", "--reason", told["review"], "--result", json.dumps(result, ensure_ascii=False))
    print(json.dumps(result, ensure_ascii=False))  # noqa: T201 - the last line is the result
    return 0


def _dibs(*words: str) -> int:
    """The task and its token are in the environment."""
    return subprocess.run([sys.executable, "-P", "-m", "dibs", *words], check=False).returncode  # noqa: S603 - ourselves


def _codes(task: dict[str, Any]) -> bool:
    return bool({"code", "test"} & set(task.get("requires", ())))


def _name(task: dict[str, Any]) -> str:
    return re.sub(r"\W+", "_", f"tide_{task['id']}").lower()


# Programs


def _program(task: dict[str, Any], seconds: float, *, broken: bool) -> list[str]:
    """A program and its tests, run for all to see. A broken one has the sun go round in a day."""
    name, seed = _name(task), sum(map(ord, task["id"]))
    moon, sun, mean = 1 + seed % 7 / 10, round(0.2 + seed % 5 / 20, 2), 2.1
    bounds = {"low": round(mean - moon - sun, 2), "high": round(mean + moon + sun, 2)}
    values = {
        "title": task["title"].replace('"', "'").replace("\\", ""),
        "name": name,
        "moon": moon,
        "sun": sun,
        "mean": mean,
    }
    files = {
        f"{name}.py": _PROGRAM.format(**values, period=9.7 if broken else _SUN),
        f"test_{name}.py": _TEST.format(**values, **bounds),
    }
    for path, text in files.items():
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        _say(f"wrote {path}, {len(text.splitlines())} lines")
    _paced(_ran(f"{name}.py"), seconds * _LOOKING)
    _paced(_ran("-m", "unittest", "-v", f"test_{name}"), seconds * _CHECKING)
    return list(files)


def _ran(*words: str) -> list[str]:
    """What a Python program prints, with the command that started it."""
    ran = subprocess.run(  # noqa: S603 - what was just written here
        [sys.executable, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    return [f"$ python {' '.join(words)}", *ran.stdout.splitlines()]


def _paced(lines: list[str], seconds: float) -> None:
    for line in lines:
        _say(line)
        time.sleep(seconds / len(lines))


def _say(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - the output is there to watch


# Pages and drawings


def _page_of(task: dict[str, Any], told: dict[str, Any], seconds: float) -> list[str]:
    """A page, and for a designer a drawing of a day's curve."""
    name = _name(task).replace("tide_", "")
    os.makedirs("docs", exist_ok=True)
    text = "\n".join([f"# {task['title']}", "", told.get("gives", "To be checked by the next one."), "", *_built_on()])
    files = {f"docs/{name}.md": text + "\n"}
    if "design" in task.get("requires", ()):
        files[f"docs/{name}.svg"] = _drawing(task)
    steps = [f"reading {len(_inputs())} earlier results", *(line for line in text.splitlines() if line)]
    _paced(steps, seconds * (_LOOKING + _CHECKING))
    for path, content in files.items():
        with open(path, "w", encoding="utf-8") as file:
            file.write(content)
        _say(f"wrote {path}, {len(content.split())} words")
    return list(files)


def _drawing(task: dict[str, Any]) -> str:
    seed = sum(map(ord, task["id"]))
    points = [(8 * x, 60 - 34 * math.cos(2 * math.pi * (x / 3 + seed) / _MOON)) for x in range(73)]
    path = " ".join(f"{x},{y:.1f}" for x, y in points)
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 576 120">\n'
        f'  <polyline points="{path}" fill="none" stroke="#1d4e6b" stroke-width="3"/>\n</svg>\n'
    )


def _inputs() -> list[dict[str, Any]]:
    with open(os.environ["DIBS_INPUTS_FILE"], encoding="utf-8") as file:
        found: list[dict[str, Any]] = json.load(file)
    return found


def _built_on() -> list[str]:
    return [f"- builds on {each['id']}: {(each.get('result') or {}).get('summary', '')}" for each in _inputs()]


def _page(task: dict[str, Any], told: dict[str, Any], pages: str) -> str:
    """Something to look at, in the demo's folder."""
    name = f"{task['id']}.md"
    lines = [f"# {task['title']}", "", told.get("gives", ""), "", *_built_on()]
    with open(os.path.join(pages, name), "w", encoding="utf-8") as page:
        page.write("\n".join(lines) + "\n")
    return name


def _commit(title: str) -> None:
    """Commit on the branch of the task's worktree; without git, keep the files."""
    if not os.path.exists(".git"):
        return
    for words in (("add", "--all"), ("commit", "--quiet", "--allow-empty", f"--message={title}")):
        subprocess.run(["git", *words], stdin=subprocess.DEVNULL, check=False)  # noqa: S603, S607 - the demo's own folder


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]), sys.argv[2]))
