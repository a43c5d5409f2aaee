"""The results in sections, one for each store, in RESULTS.md."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from bench.measure import Figure, machine, today

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.postgres.options import Options

SQLITE = ("cold", "single", "fairness", "scale")
VAULT = ("vault",)
NEO4J = ("neo4j",)
CHAT = ("chat",)
BOARD = ("board",)
HTTP = ("http",)
WORKER = ("worker",)
POSTGRES = ("throughput", "scale", "plans", "cold")

_RESULTS = Path(__file__).parent / "RESULTS.md"
_PREFACE = """# The last run of `make bench`

Ratios are of things measured in turn in one run; rates depend on the machine.
"""


class Section(NamedTuple):
    title: str
    body: str
    figures: tuple[Figure, ...]

    @property
    def kept(self) -> bool:
        return all(figure.kept is not False for figure in self.figures)

    def text(self) -> str:
        return f"## {self.title}\n\n{self.body}\n"


def sqlite(parts: Sequence[str]) -> Section:
    where = f"{today()}: {machine()}. Tasks on a local disk, WAL, synchronous=FULL unless said."
    figures: list[Figure] = []
    for part in parts:
        figures += import_module(f"bench.{part}").run()
    return Section("SQLite", f"{where}\n\n{_table(figures)}", tuple(figures))


def vault(parts: Sequence[str]) -> Section:
    where = f"{today()}: {machine()}. Files on a local disk."
    figures = [figure for part in parts for figure in import_module(f"bench.{part}").run()]
    return Section("Vault", f"{where}\n\n{_table(figures)}", tuple(figures))


def neo4j(parts: Sequence[str]) -> Section:
    where = f"{today()}: {machine()}. Neo4j 5.26 community on the same cores, every commit on its disk."
    figures = [figure for part in parts for figure in import_module(f"bench.{part}").run()]
    return Section("Neo4j", f"{where}\n\n{_table(figures)}", tuple(figures))


def chat(parts: Sequence[str]) -> Section:
    where = f"{today()}: {machine()}. Processor time, unless said."
    figures = [figure for part in parts for figure in import_module(f"bench.{part}").run()]
    return Section("Chat", f"{where}\n\n{_table(figures)}", tuple(figures))


def board(parts: Sequence[str]) -> Section:
    where = f"{today()}: {machine()}. Chromium without a graphics card and the server on the same cores, SQLite."
    figures = [figure for part in parts for figure in import_module(f"bench.{part}").run()]
    return Section("Board", f"{where}\n\n{_table(figures)}", tuple(figures))


def http(parts: Sequence[str]) -> Section:
    where = f"{today()}: {machine()}. Clients, server and PostgreSQL on the same cores, every commit on the disk."
    figures = [figure for part in parts for figure in import_module(f"bench.{part}").run()]
    return Section("HTTP", f"{where}\n\n{_table(figures)}", tuple(figures))


def worker(parts: Sequence[str]) -> Section:
    where = (
        f"{today()}: {machine()}. A worker and its commands; the servers on the same machine, every commit on its disk."
    )
    figures = [figure for part in parts for figure in import_module(f"bench.{part}").run()]
    return Section("Worker", f"{where}\n\n{_table(figures)}", tuple(figures))


def postgres(parts: Sequence[str], options: Options) -> Section:
    """All parts on one server."""
    from bench.postgres import promises, tables
    from bench.postgres.server import running
    from bench.postgres.throughput import race

    where = f"{today()}: {machine()}"
    figures: list[Figure] = []
    detail = ""
    with running() as server:
        where += f". {server.describe()}."
        for part in parts:
            if part == "throughput":
                outcome = race(server, options)
                figures += promises.figures(outcome)
                detail = f"\n\n### Throughput\n\n{tables.throughput(outcome, options)}"
            else:
                figures += import_module(f"bench.postgres.{part}").figures(server, options)
    return Section("PostgreSQL", f"{where}\n\n{_table(figures)}{detail}", tuple(figures))


def keep(section: Section) -> None:
    """Replace one section of RESULTS.md and keep the others."""
    known = dict(_read())
    known[section.title] = section.text()
    _RESULTS.write_text("\n".join((_PREFACE, *known.values())), encoding="utf-8")


def _read() -> list[tuple[str, str]]:
    if not _RESULTS.exists():
        return []
    chunks = ("\n" + _RESULTS.read_text(encoding="utf-8")).split("\n## ")[1:]
    return [(chunk.partition("\n")[0], f"## {chunk.rstrip()}\n") for chunk in chunks]


def _table(figures: Sequence[Figure]) -> str:
    return "\n".join(("| what | measured | promised | kept |", "|---|---|---|---|", *(f.row() for f in figures)))
