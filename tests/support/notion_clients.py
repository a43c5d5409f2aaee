"""Third-party clients of Notion, as real users have them: where each is on this machine, and one day with each.

`.ci/run` installs the SDKs into the cache: @notionhq/client 2.x and 5.x with TypeScript, and notion-client 2.x.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from dibs.lab.emulator import Emulator
from support.notion import title

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Ask = Callable[..., dict[str, Any]]

VERSIONS = ("2022-06-28", "2025-09-03", "2026-03-11")
_DAY = Path(__file__).parent / "notion_day"
_PATIENCE = 240.0
_NAMES = ("ntn", "notion")


class Called(NamedTuple):
    """One call of the day: an answer, with the SDK's name for its type where there is one, or an error's code."""

    name: str
    type: str
    answer: Any
    error: str
    status: int

    @property
    def result(self) -> str:
        return f"{self.status} {self.error}" if self.error else "ok"


class Client(NamedTuple):
    name: str
    versions: tuple[str, ...]
    day: Callable[[Emulator, str, str], list[Called]]


def installed() -> Path:
    """The folder with the SDKs; tests that need them are left out where it is missing, but never in CI."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    folder = Path(os.environ.get("DIBS_TEST_NOTION_CLIENTS") or os.path.join(cache, "dibs", "notion-clients"))
    if folder.is_dir() and shutil.which("node"):
        return folder
    if os.environ.get("CI"):
        raise RuntimeError(f"the Notion SDKs are missing in {folder}, or there is no 'node'; .ci/run installs both")
    pytest.skip("the Notion SDKs and node are missing; .ci/run installs them")


def notion_cli() -> str:
    """The real notion-cli. Not every registry mirror serves it, so even CI may lack it."""
    found = os.environ.get("DIBS_TEST_NTN") or next(filter(None, map(shutil.which, _NAMES)), None)
    if not found:
        why = os.environ.get("DIBS_TEST_NTN_MISSING")
        told = f" (.ci/run could not get it: {why})" if why else ""
        pytest.skip(f"notion-cli is missing{told}: install it, or name its binary (ntn) in DIBS_TEST_NTN")
    return found


def holds_notion_cli(folder: str) -> bool:
    return any(os.path.exists(os.path.join(folder, name)) for name in _NAMES)


def day_of(client: Client, version: str) -> list[Called]:
    """The scripted day of one client at a new Notion."""
    with Emulator() as notion:
        home = notion.database({"Name": {"title": {}}})
        root = notion.page(home.id, {"Name": title("Home")})
        return client.day(notion, version, root)


def _environment(notion: Emulator, **more: str) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "HOME": "/nonexistent",  # the folder for settings of a user
        "NOTION_TOKEN": notion.token,
        "NOTION_API_BASE_URL": notion.url,
        **more,
    }


def _lines(words: list[str], environment: dict[str, str]) -> Iterator[Called]:
    ran = subprocess.run(words, capture_output=True, text=True, env=environment, timeout=_PATIENCE, check=False)
    assert ran.returncode == 0, ran.stderr[-2000:]
    for line in ran.stdout.splitlines():
        said = json.loads(line)
        yield Called(
            said["call"], said.get("type", ""), said.get("answer"), said.get("error", ""), said.get("status", 0)
        )


def _sdk(number: int) -> Callable[[Emulator, str, str], list[Called]]:
    def day(notion: Emulator, version: str, root: str) -> list[Called]:
        words = ["node", str(_DAY / "day.mjs"), str(installed() / f"sdk{number}"), version, root]
        return list(_lines(words, _environment(notion)))

    return day


def _python(number: int) -> Callable[[Emulator, str, str], list[Called]]:
    def day(notion: Emulator, version: str, root: str) -> list[Called]:
        more = {"PYTHONPATH": str(installed() / "python2")} if number == 2 else {}
        return list(_lines([sys.executable, str(_DAY / "day.py"), version, root], _environment(notion, **more)))

    return day


def _cli(notion: Emulator, version: str, root: str) -> list[Called]:
    """notion-cli speaks one version of the API, its own."""
    assert version
    program = notion_cli()
    environment = _environment(notion, NOTION_API_BASE_URL=f"{notion.url}/v1", NOTION_OUTPUT="json")
    called: list[Called] = []

    def ask(name: str, *words: str, body: object = None) -> Any:
        ran = subprocess.run(
            [program, *words], input=json.dumps(body) if body is not None else "", capture_output=True, text=True,
            env=environment, timeout=_PATIENCE, check=False,
        )  # fmt: skip
        if ran.returncode:
            status, _, rest = ran.stderr.partition("notion API error ")[2].partition(" (")
            called.append(Called(name, "", None, rest.partition(")")[0], int(status or 0)))
            return None
        called.append(Called(name, "", json.loads(ran.stdout), "", 0))
        return called[-1].answer

    tasks = notion.database({"Name": {"title": {}}, "Points": {"number": {}}, "Stage": {"select": {}}})
    nowhere = "00000000-0000-4000-8000-000000000000"
    ask("users.me", "user", "me")
    ask("databases.retrieve", "db", "get", tasks.id)
    ask("query, of an empty list", "db", "query", tasks.id, "--all", "--results-only")
    values = {"Name": title("Sweep"), "Points": {"number": 3}}
    words = ("page", "create", "--parent", tasks.id, "--parent-type", "database", "--properties", "-")
    page = ask("pages.create", *words, body=values)["id"]
    ask("pages.retrieve", "page", "get", page)
    ask("pages.update", "page", "update", page, "--properties", "-", body={"Points": {"number": 5}})
    condition = json.dumps({"property": "Points", "number": {"equals": 5}})
    ask("query, by filter and order", "db", "query", tasks.id, "--all", "--results-only", "--filter", condition)
    below = ("page", "create", "--parent", root, "--properties", "-")
    ask("pages.create, below a page", *below, body={"title": title("Minutes")})
    ask("comments.create", "comment", "add", page, "--text", "nearly done")
    ask("comments.list", "comment", "list", page)
    ask("pages.update, into the trash", "page", "update", page, "--archived")
    ask("query, without the trash", "db", "query", tasks.id, "--all", "--results-only")
    ask("pages.retrieve, unknown", "page", "get", nowhere)
    return called


CLIENTS = (
    Client("@notionhq/client 2.x", VERSIONS, _sdk(2)),
    Client("@notionhq/client 5.x", VERSIONS, _sdk(5)),
    Client("notion-client 2.x", VERSIONS, _python(2)),
    Client("notion-client 3.x", VERSIONS, _python(3)),
    Client("notion-cli (ntn)", (VERSIONS[1],), _cli),
)


_PRELUDE = """\
import type * as api from "@notionhq/client/build/src/api-endpoints"
const holds = <Type,>() => <Value extends Type>(value: Value) => value
"""


def misfits(number: int, calls: list[Called], folder: Path) -> str:
    """TypeScript's complaints about the answers as values of the official SDK's own types; empty if all of them fit.

    The types of 5.x have every field of today's answers, so a field that they do not know is an error. Those of 2.x are
    older than some fields that Notion has added to the answers of its old version, so there a new field is none.
    """
    lines = [_PRELUDE]
    for place, called in enumerate(calls):
        if called.type:
            answer = json.dumps({name: value for name, value in called.answer.items() if name != "request_id"})
            wanted = f"api.{called.type}"
            exact = f"export const answer{place}: {wanted} = {answer}"
            lines.append(f"// {called.name}\n{exact if number > 2 else f'holds<{wanted}>()({answer})'}")
    sdk = installed() / f"sdk{number}"
    (folder / "day.ts").write_text("\n".join(lines))
    (folder / "node_modules").symlink_to(sdk / "node_modules")
    options = ("--noEmit", "--strict", "--skipLibCheck", "--target", "es2022", "--module", "nodenext")
    compiler = installed() / "sdk5" / "node_modules" / ".bin" / "tsc"
    ran = subprocess.run(
        [compiler, *options, "day.ts"], capture_output=True, text=True, cwd=folder, timeout=_PATIENCE, check=False
    )
    assert not ran.stderr, ran.stderr
    return ran.stdout
