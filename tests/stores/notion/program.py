"""A substitute for notion-cli, for machines without it, with the same commands and answers.

It prints JSON, `null` for an empty list, and errors with Notion's status as text on standard error. test_binary.py runs
the same tests with the real program if it is installed.
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
    request = Request(f"{os.environ['NOTION_API_BASE_URL']}/{path}", data, headers, method=method)  # noqa: S310 - loopback
    with urlopen(request, timeout=120) as answer:  # noqa: S310
        return json.load(answer)


def main(words: list[str]) -> Any:  # noqa: C901 - one case for each of its commands
    match words:
        case ["auth", "status"]:
            return {"authenticated": True, "token_source": "environment variable (NOTION_TOKEN)"}
        case ["user", "me"]:
            return ask("GET", "users/me")
        case ["user", "get", user]:
            return ask("GET", f"users/{user}")
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


def every(database: str, sorts: Any, condition: Any) -> list[Any] | None:
    source, found = source_of(database), []
    body = {"sorts": sorts} | ({"filter": condition} if condition else {})
    while True:
        answer = ask("POST", f"data_sources/{source}/query", body)
        found += answer["results"]
        if not answer["next_cursor"]:
            return found or None
        body["start_cursor"] = answer["next_cursor"]


if __name__ == "__main__":
    try:
        print(json.dumps(main(sys.argv[1:])))  # noqa: T201 - a program prints
    except HTTPError as error:
        said = json.load(error)
        what = f"notion API error {error.code} ({said['code']}): {said['message']}"
        print(f"failed: {error.url} ({error.code}): {what}", file=sys.stderr)  # noqa: T201
        sys.exit({401: 3, 403: 3, 404: 4, 429: 5}.get(error.code, 2 if error.code < 500 else 1))
