"""Named queries from a `.sql` file: each starts with `-- name: what_it_is` and a line of intent."""

from __future__ import annotations

import re

_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)


def load_queries(path: str) -> dict[str, str]:
    with open(path, encoding="utf-8") as file:
        parts = _NAME.split(file.read())
    return {name: _bare(text) for name, text in zip(parts[1::2], parts[2::2], strict=True)}


def _bare(text: str) -> str:
    """The statement without its comment lines: they would be parsed anew on every call."""
    return "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("--")).strip()
