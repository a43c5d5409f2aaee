"""What the demo's agents do with a task: `python -m dibs.onboarding.demo.labour SPEED PAGES`, a command of a worker.

It takes the time that the story says, writes a page that builds on what earlier tasks left, and prints what came of it.
Where the story says so it fails, or asks a person for help through `dibs block` or `dibs review`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from typing import Any

USUAL = 8.0  # seconds for what the story does not tell


def main(speed: float, pages: str) -> int:
    task = json.load(sys.stdin)
    told: dict[str, Any] = task.get("extra", {}).get("demo", {})
    time.sleep(told.get("takes", USUAL) / speed)
    first = task["attempt"] == 1
    if first and "fail" in told:
        print(told["fail"], file=sys.stderr)  # noqa: T201 - this is how a command tells why
        return 1
    if first and "block" in told:
        return _dibs("block", "--reason", told["block"], "--action", told["action"])
    result = {"summary": told.get("gives", f"{task['title']}: done."), "page": _page(task, told, pages)}
    if "review" in told:
        return _dibs("review", "--reason", told["review"], "--result", json.dumps(result, ensure_ascii=False))
    print(json.dumps(result, ensure_ascii=False))  # noqa: T201 - the last line is the result
    return 0


def _dibs(*words: str) -> int:
    """The task and its token are in the environment."""
    return subprocess.run([sys.executable, "-P", "-m", "dibs", *words], check=False).returncode  # noqa: S603 - ourselves


def _page(task: dict[str, Any], told: dict[str, Any], pages: str) -> str:
    """Something to look at, in the demo's folder."""
    with open(os.environ["DIBS_INPUTS_FILE"], encoding="utf-8") as file:
        before = json.load(file)
    lines = [f"# {task['title']}", "", told.get("gives", ""), ""]
    lines += [f"- builds on {each['id']}: {(each.get('result') or {}).get('summary', '')}" for each in before]
    name = f"{task['id']}.md"
    with open(os.path.join(pages, name), "w", encoding="utf-8") as page:
        page.write("\n".join(lines) + "\n")
    return name


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]), sys.argv[2]))
