"""The scripted day with notion-client 2.x or 3.x: python day.py API_VERSION ROOT_PAGE.

It imports only that client, and prints one JSON line per call, as day.mjs does.
"""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any

from notion_client import Client
from notion_client.errors import HTTPResponseError

if TYPE_CHECKING:
    from collections.abc import Callable

NOWHERE = "00000000-0000-4000-8000-000000000000"


def call(name: str, act: Callable[[], Any]) -> Any:
    try:
        answer = act()
    except HTTPResponseError as error:
        code = getattr(error.code, "value", error.code)
        print(json.dumps({"call": name, "error": str(code), "status": error.status}))  # noqa: T201 - its output
        return None
    print(json.dumps({"call": name, "answer": answer}))  # noqa: T201
    return answer


def text(content: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": {"content": content}}]


def titled(content: str) -> dict[str, Any]:
    return {"title": {"title": text(content)}}


def main(version: str, root: str) -> None:
    notion: Any = Client(
        auth=os.environ["NOTION_TOKEN"], base_url=os.environ["NOTION_API_BASE_URL"], notion_version=version
    )
    sources = version >= "2025-09-03"
    parent = {"type": "page_id", "page_id": root}
    columns: dict[str, Any] = {
        "Name": {"title": {}},
        "Points": {"number": {}},
        "Due": {"date": {}},
        "Files": {"files": {}},
    }
    schema = {"initial_data_source": {"properties": columns}} if sources else {"properties": columns}
    request = notion.request
    call("users.me", notion.users.me)
    body = {"parent": parent, "title": text("Tasks"), **schema}
    made = call("databases.create", lambda: request(path="databases", method="POST", body=body))
    call("databases.retrieve", lambda: notion.databases.retrieve(made["id"]))
    source = made["data_sources"][0]["id"] if sources else made["id"]
    table = {"data_source_id": source} if sources else {"database_id": source}
    values = {
        "Name": {"title": text("Sweep")},
        "Points": {"number": 3},
        "Files": {"files": [{"name": "plan", "external": {"url": "https://example.org/plan.pdf"}}]},
    }
    page = call(
        "pages.create",
        lambda: notion.pages.create(parent=table, properties=values, icon={"type": "emoji", "emoji": "🧹"}),
    )["id"]
    call("pages.retrieve", lambda: notion.pages.retrieve(page))
    call("pages.update", lambda: notion.pages.update(page, properties={"Points": {"number": 5}}))
    where = f"{'data_sources' if sources else 'databases'}/{source}/query"
    by = {"filter": {"property": "Points", "number": {"equals": 5}}, "page_size": 1}
    call("query, by filter and order", lambda: request(path=where, method="POST", body=by))
    call("pages.create, below a page", lambda: notion.pages.create(parent=parent, properties=titled("Minutes")))
    child = {"type": "paragraph", "paragraph": {"rich_text": text("hello")}}
    blocks = call("blocks.children.append", lambda: notion.blocks.children.append(page, children=[child]))
    call("blocks.children.list", lambda: notion.blocks.children.list(page))
    call("blocks.delete", lambda: notion.blocks.delete(blocks["results"][0]["id"]))
    call("blocks.children.list, after a deletion", lambda: notion.blocks.children.list(page))
    call("comments.create", lambda: notion.comments.create(parent={"page_id": page}, rich_text=text("nearly done")))
    call("comments.list", lambda: notion.comments.list(block_id=page))
    call("search", lambda: notion.search(query="Sweep"))
    trash = {"in_trash" if version >= "2026-03-11" else "archived": True}
    call("pages.update, into the trash", lambda: request(path=f"pages/{page}", method="PATCH", body=trash))
    call("query, without the trash", lambda: request(path=where, method="POST", body={}))
    call(
        "pages.create, unknown parent", lambda: notion.pages.create(parent={"page_id": NOWHERE}, properties=titled("x"))
    )
    call(
        "pages.create, null parent",
        lambda: request(path="pages", method="POST", body={"parent": None, "properties": {}}),
    )
    call("pages.retrieve, unknown", lambda: notion.pages.retrieve(NOWHERE))


main(*sys.argv[1:])
