# ruff: noqa: E501 - the page has long lines
"""Write the page of the scripted day: `PYTHONPATH=tests python -m support.notion_day`, with all clients installed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from support.notion_clients import CLIENTS, day_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from support.notion_clients import Called

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "notion-emulator-clients.md"

_HEAD = """\
# The Notion emulator and real clients

This page is for users of the [Notion emulator](../howto/notion-emulator.md) who need to know which calls it answers. The tests make these calls with real clients, in every
version of the API that a client supports. Each answer to an SDK is checked against the types of the official SDK: those of `@notionhq/client` 2.x for version
2022-06-28, those of 5.x for later versions. A dash means that the client does not make the call. The page is generated from such a run.
"""

_TAIL = """
## What is not emulated

A request for a feature that Notion has and the emulator lacks gets status 400 with the code `not_emulated`, and changes nothing:

- blocks other than paragraphs, headings, list items, to-dos, toggles, quotes, code and dividers; adding blocks elsewhere than at the end;
- `content`, `markdown`, `template` and `position` of a new page; `template`, `erase_content` and `is_locked` of a change;
- moving a page into or out of a data source, and moving a database; a database below a block; a database's description and `is_inline`;
- uploaded files: `files` properties, icons and covers take external addresses, and icons take emojis;
- equations, and mentions of anything but users, pages and dates. A mention's plain text is the id, not the name.
"""


def table(days: Mapping[tuple[str, str], list[Called]]) -> list[str]:
    """A row per group of calls with the same results, a column per client."""
    clients = list(dict.fromkeys(client for client, _ in days))
    calls = dict.fromkeys(called.name for day in days.values() for called in day)
    groups: dict[tuple[str, ...], list[str]] = {}
    for call in calls:
        groups.setdefault(tuple(_cell(days, client, call) for client in clients), []).append(call.replace(", ", " "))
    rows = [f"| {', '.join(names)} | {' | '.join(cells)} |" for cells, names in groups.items()]
    return ["", f"| Calls | {' | '.join(clients)} |", f"|---|{'---|' * len(clients)}", *rows]


def _cell(days: Mapping[tuple[str, str], list[Called]], client: str, call: str) -> str:
    """The call's results for one client; versions are named only where they differ."""
    found = {
        version: next((called.result for called in day if called.name == call), "-")
        for (name, version), day in days.items()
        if name == client
    }
    results = list(dict.fromkeys(found.values()))
    if len(results) == 1:
        return results[0]
    return ", ".join(f"{each} ({', '.join(v for v, one in found.items() if one == each)})" for each in results)


if __name__ == "__main__":
    days = {(client.name, version): day_of(client, version) for client in CLIENTS for version in client.versions}
    command_line = {key: days.pop(key) for key in list(days) if key[0] == CLIENTS[-1].name}
    rows = [*table(days), *table(command_line)]
    PAGE.write_text(_HEAD.rstrip() + "\n" + "\n".join(rows) + "\n" + _TAIL, encoding="utf-8")
