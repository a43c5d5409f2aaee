"""A program `notion` as the store calls it, over the same Notion: each call is a process of its own.

It takes the words that `notion-cli` takes, as far as dibs says them, and answers as that does: JSON on standard output,
errors as JSON on standard error with the status that Notion gave, and an exit status of its own.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen


def ask(method: str, path: str, body: object = None) -> Any:
    headers = {
        "Authorization": f"Bearer {os.environ['NOTION_TOKEN']}",
        "Notion-Version": "2025-09-03",
        "Content-Type": "application/json",
    }
    data = None if body is None else json.dumps(body).encode()
    request = Request(f"{os.environ['NOTION_API_BASE_URL']}/v1/{path}", data, headers, method=method)  # noqa: S310 - loopback
    with urlopen(request, timeout=120) as answer:  # noqa: S310
        return json.load(answer)


def main(words: list[str]) -> Any:
    match words:
        case ["auth", "status"]:
            return ask("GET", "users/me")
        case ["db", "get", database]:
            return ask("GET", f"databases/{database}")
        case ["datasource", "get", source]:
            return ask("GET", f"data_sources/{source}")
        case ["db", "query", database, "--all", "--results-only", "--sorts", sorts, *rest]:
            return every(database, json.loads(sorts), json.loads(rest[1]) if rest else None)
        case ["page", "get", page]:
            return ask("GET", f"pages/{page}")
        case ["page", "update", page, "--properties", "-"]:
            return ask("PATCH", f"pages/{page}", {"properties": json.load(sys.stdin)})
        case ["page", "create", "--parent", database, "--parent-type", "database", "--properties", "-"]:
            parent = {"type": "data_source_id", "data_source_id": source_of(database)}
            return ask("POST", "pages", {"parent": parent, "properties": json.load(sys.stdin)})
        case ["comment", "add", page, "--text", text]:
            return ask("POST", "comments", {"parent": {"page_id": page}, "rich_text": [{"text": {"content": text}}]})
        case ["comment", "list", page]:
            return ask("GET", f"comments?block_id={page}")
    raise SystemExit(2)


def source_of(database: str) -> str:
    return str(ask("GET", f"databases/{database}")["data_sources"][0]["id"])


def every(database: str, sorts: Any, condition: Any) -> list[Any]:
    source, found = source_of(database), []
    body = {"sorts": sorts} | ({"filter": condition} if condition else {})
    while True:
        answer = ask("POST", f"data_sources/{source}/query", body)
        found += answer["results"]
        if not answer["next_cursor"]:
            return found
        body["start_cursor"] = answer["next_cursor"]


if __name__ == "__main__":
    try:
        print(json.dumps(main(sys.argv[1:])))  # noqa: T201 - a program prints
    except HTTPError as error:
        told = {"error": {"message": json.load(error).get("message"), "status": error.code, "category": "user"}}
        print(json.dumps(told), file=sys.stderr)  # noqa: T201
        sys.exit({401: 3, 403: 3, 404: 4, 429: 5}.get(error.code, 1))
