"""`python -m bench [NAME …]`: measure, print the table; with no names, write bench/RESULTS.md as well."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from bench.measure import machine

if TYPE_CHECKING:
    from bench.measure import Figure

_PARTS = ("cold", "single", "fairness", "scale")


def main(names: list[str]) -> int:
    figures: list[Figure] = []
    where = machine()
    for name in names or _PARTS:
        print(f"measuring {name} …", file=sys.stderr)
        figures += import_module(f"bench.{name}").run()
    table = "\n".join(("| what | measured | promised | kept |", "|---|---|---|---|", *(f.row() for f in figures)))
    print(table)
    if not names:
        _write(table, where)
    return int(any(figure.kept is False for figure in figures))


def _write(table: str, where: str) -> None:
    today = datetime.now(UTC).date()  # noqa: TID251 - the date of a measurement is the wall's
    text = (
        f"# The last run of `make bench`\n\n{today}: {where}. Tasks on a local disk, WAL, synchronous=FULL "
        f"unless said.\nRatios are of things measured in turn in one run; rates depend on the machine.\n\n{table}\n"
    )
    (Path(__file__).parent / "RESULTS.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
