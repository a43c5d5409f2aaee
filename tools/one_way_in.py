"""Nothing but the Desk calls a store: a lint rule.

Only the Desk, the stores, their tests and the lab may import a store or `open_store`, or use the store behind a desk.
Values of the port (`Query`, `Moved`, …) are allowed everywhere.
"""

from __future__ import annotations

import ast
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ALLOWED = ("desk.py", "stores", "testing", "testing.py", "lab")
_REACHED = {"store", "_store"}
_OWNERS = {"args"}  # `args.store` is the option --store


def broken(source: str) -> Iterator[tuple[int, str]]:
    """Where a module breaks the rule, by line, and how."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("dibs.stores"):
            for name in node.names:
                if name.name == "open_store" or name.name.endswith("Store"):
                    yield node.lineno, f"imports {name.name}; take a Desk, or open_desk(url)"
        elif isinstance(node, ast.Attribute) and node.attr in _REACHED:
            owner = node.value
            called = owner.id if isinstance(owner, ast.Name) else owner.attr if isinstance(owner, ast.Attribute) else ""
            if called not in _OWNERS:
                yield node.lineno, f"reaches for {called}.{node.attr}; use a verb of the Desk"


def modules(root: str) -> Iterator[str]:
    for folder, _, files in os.walk(root):
        first = os.path.relpath(folder, root).partition(os.sep)[0]
        for file in files:
            if file.endswith(".py") and (file if first == "." else first) not in ALLOWED:
                yield os.path.join(folder, file)


def main(root: str) -> int:
    found = 0
    for path in sorted(modules(root)):
        with open(path, encoding="utf-8") as file:
            for line, how in broken(file.read()):
                print(f"{path}:{line}: {how}")
                found += 1
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "src/dibs"))
