"""link, unlink, graph: what depends on what."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.cli.command import add_agent, add_task, open_desk
from dibs.console.commands import Command
from dibs.console.streams import emit, json_document, write_text
from dibs.core.errors import InvalidInput
from dibs.core.task import Link, LinkKind
from dibs.core.wire import link_json, task_json

if TYPE_CHECKING:
    import argparse

    from dibs.console.arguments import Parser
    from dibs.core.graph import Graph
    from dibs.core.task import Json


def _ends_options(parser: Parser) -> None:
    add_task(parser)
    parser.add_argument("--blocked-by", metavar="ID", action="append", default=[], help="must be done before it")
    parser.add_argument("--blocks", metavar="ID", action="append", default=[], help="has to wait for it")
    parser.add_argument("--feeds-from", metavar="ID", action="append", default=[], help="hands its result on to it")
    parser.add_argument("--parallel-with", metavar="ID", action="append", default=[], help="is independent of it")
    add_agent(parser)


def _links(args: argparse.Namespace) -> list[Link]:
    links = [Link(args.task, other) for other in args.blocked_by]
    links += [Link(other, args.task) for other in args.blocks]
    links += [Link(args.task, other, LinkKind.FEEDS_INTO) for other in args.feeds_from]
    links += [Link(args.task, other, LinkKind.PARALLEL_OK) for other in args.parallel_with]
    if not links:
        raise InvalidInput("Say how: --blocked-by, --blocks, --feeds-from or --parallel-with, each with an id.")
    return links


def link(args: argparse.Namespace) -> int:
    with open_desk(args) as desk:
        made = desk.link(_links(args))
        return emit(
            args, lambda: [link_json(one) for one in made], lambda: [_line(one) for one in made] or ["nothing new"]
        )


def unlink(args: argparse.Namespace) -> int:
    with open_desk(args) as desk:
        gone = desk.unlink(_links(args))
        return emit(
            args, lambda: [link_json(one) for one in gone], lambda: [f"no longer: {_line(one)}" for one in gone]
        )


def _line(link: Link) -> str:
    words = {LinkKind.BLOCKS: "waits for", LinkKind.FEEDS_INTO: "is fed by", LinkKind.PARALLEL_OK: "goes beside"}
    return f"{link.task} {words[link.kind]} {link.on}"


def _graph_options(parser: Parser) -> None:
    parser.add_argument("--format", choices=("text", "mermaid", "dot", "svg"), default="text")
    parser.add_argument("--open", action="store_true", help="only what is unfinished")
    parser.add_argument("-o", "--output", metavar="FILE", help="write it there instead of to stdout")


def graph(args: argparse.Namespace) -> int:
    with open_desk(args) as desk:
        drawn = desk.graph(finished=not args.open)
    if args.output is None:
        return emit(args, lambda: _data(drawn), lambda: [_draw(drawn, args.format)])
    document = json_document(_data(drawn)) if args.json else _draw(drawn, args.format)
    write_text(args.output, document + "\n")
    return 0


def _data(drawn: Graph) -> dict[str, Json]:
    links = [link_json(one) for one in drawn.links]
    return {"tasks": [task_json(task) for task in drawn.tasks], "links": links}


def _draw(drawn: Graph, how: str) -> str:
    from importlib import import_module

    picture: str = getattr(import_module(f"dibs.core.draw.{how}"), how)(drawn)
    return picture.rstrip("\n")


COMMANDS = {
    "link": Command(_ends_options, link),
    "unlink": Command(_ends_options, unlink),
    "graph": Command(_graph_options, graph),
}
