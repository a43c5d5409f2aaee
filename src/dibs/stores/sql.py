"""Named queries from a file: each starts with `-- name: what_it_is` (in Cypher `// name: …`) and a line of intent."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


def load_queries(path: str, lists: Mapping[str, str], *, comment: str = "--") -> dict[str, str]:
    """The queries of a file by name, with placeholders such as `{task}` replaced by their column lists."""
    with open(path, encoding="utf-8") as file:
        whole = file.read()
    for placeholder, columns in lists.items():
        whole = whole.replace(placeholder, columns)
    queries = {}
    for part in whole.split(f"\n{comment} name: ")[1:]:
        name, _, text = part.partition("\n")
        while text.startswith(comment):  # the lines of intent
            text = text.partition("\n")[2]
        queries[name] = text.strip()
    return queries
