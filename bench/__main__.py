"""`python -m bench [NAME …]`: measure and print. A store measured whole gets its section of bench/RESULTS.md."""

from __future__ import annotations

import argparse
import sys

from bench import sections
from bench.postgres.options import Options

_PARTS = {
    "sqlite": sections.SQLITE,
    "vault": sections.VAULT,
    "neo4j": sections.NEO4J,
    "worker": sections.WORKER,
    "chat": sections.CHAT,
    "board": sections.BOARD,
    "http": sections.HTTP,
    "postgres": tuple(f"postgres.{part}" for part in sections.POSTGRES),
}
_NAMES = tuple(name for store, parts in _PARTS.items() for name in (store, *parts))


def main(words: list[str]) -> int:
    args = _parser().parse_args(words)
    options = Options(quick=args.quick, rounds=1 if args.quick else args.rounds, match=args.match)
    kept = True
    for store, parts in _PARTS.items():
        wanted = tuple(part for part in parts if not args.names or store in args.names or part in args.names)
        if wanted:
            section = _measure(store, wanted, options)
            print(section.text())
            if wanted == parts and options.worth_keeping:
                sections.keep(section)
            kept = kept and section.kept
    return 0 if kept else 1


def _measure(store: str, parts: tuple[str, ...], options: Options) -> sections.Section:
    print(f"measuring {', '.join(parts)} …", file=sys.stderr)
    if store == "sqlite":
        return sections.sqlite(parts)
    if store == "vault":
        return sections.vault(parts)
    if store == "neo4j":
        return sections.neo4j(parts)
    if store == "worker":
        return sections.worker(parts)
    if store == "chat":
        return sections.chat(parts)
    if store == "board":
        return sections.board(parts)
    if store == "http":
        return sections.http(parts)
    return sections.postgres([part.removeprefix("postgres.") for part in parts], options)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="bench", description="Figures for the claims we make; all of them by default."
    )
    parser.add_argument("names", nargs="*", metavar="NAME", type=_known, help=f"what to measure: {', '.join(_NAMES)}")
    parser.add_argument("--quick", action="store_true", help="PostgreSQL with little work: does everything still run?")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of the PostgreSQL race (3)")
    parser.add_argument(
        "--match", default="", help="only those in the race whose names have this in them, and the floor"
    )
    return parser


def _known(name: str) -> str:
    if name not in _NAMES:
        raise argparse.ArgumentTypeError(f"there is no '{name}'")
    return name


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
