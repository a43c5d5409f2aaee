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

One day of calls, made by each of the third-party clients that people use Notion with. The tests run it with every
version of the API that a client can be told to speak, and check each answer against the types of the official SDK
(`@notionhq/client` 5.x). This page is generated from such a run; a dash is a call that the client does not make then.

"""

_TAIL = """
## What is not emulated

A request for something that Notion can do and the emulator cannot gets status 400 and the code `not_emulated`, and
changes nothing:

- blocks other than paragraphs, headings, list items, to-dos, toggles, quotes, code and dividers; adding blocks
  elsewhere than at the end;
- the `content`, `markdown`, `template` and `position` of a new page; `template`, `erase_content` and `is_locked`;
- moving a page into or out of a data source; a database below a block; the description of a database, `is_inline`,
  and moving a database;
- uploaded files: in `files` properties, icons and covers, only external addresses and emojis;
- equations in a text, and mentions of anything but users, pages and dates. The plain text of a mention is the id, not
  the name.
"""


def table(days: Mapping[tuple[str, str], list[Called]]) -> list[str]:
    """A table for each client: its calls in their order, and the result of each under each version."""
    found: list[str] = []
    for client in dict.fromkeys(client for client, _ in days):
        own = {version: calls for (name, version), calls in days.items() if name == client}
        found += ["", f"## {client}", "", f"| Call | {' | '.join(own)} |", f"|---|{'---|' * len(own)}"]
        results = {version: {called.name: called.result for called in calls} for version, calls in own.items()}
        for call in dict.fromkeys(call for calls in results.values() for call in calls):
            found.append(f"| {call} | {' | '.join(calls.get(call, '-') for calls in results.values())} |")
    return found


if __name__ == "__main__":
    rows = table({(client.name, version): day_of(client, version) for client in CLIENTS for version in client.versions})
    PAGE.write_text(_HEAD.rstrip() + "\n" + "\n".join(rows) + "\n" + _TAIL, encoding="utf-8")
