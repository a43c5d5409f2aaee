"""Named queries from a `.sql` file: each starts with `-- name: what_it_is` and a line of intent."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)


def load_queries(path: str, lists: Mapping[str, str]) -> dict[str, str]:
    """The queries of a file by name, with placeholders such as `{task}` replaced by their column lists."""
    with open(path, encoding="utf-8") as file:
        whole = file.read()
    for placeholder, columns in lists.items():
        whole = whole.replace(placeholder, columns)
    parts = _NAME.split(whole)
    return {name: _bare(text) for name, text in zip(parts[1::2], parts[2::2], strict=True)}


def _bare(text: str) -> str:
    """The statement without its comment lines: they would be parsed anew on every call."""
    return "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("--")).strip()
