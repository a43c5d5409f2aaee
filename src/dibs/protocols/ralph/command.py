"""What several commands of `ralph task` share."""

from collections.abc import Iterable, Sequence

from dibs.console.arguments import Parser, json_text
from dibs.console.streams import compact_json, complain, speaks_utf8
from dibs.core.errors import InvalidInput
from dibs.core.task import Json
from dibs.protocols.ralph.markdown import Section


def add_id(parser: Parser) -> None:
    parser.add_argument("id", metavar="ID", help="the task's id, in full")


def add_agent(parser: Parser) -> None:
    parser.add_argument("--agent", metavar="A", help="who you are (RALPH_AGENT_ID)")


def add_token(parser: Parser) -> None:
    parser.add_argument("--token", metavar="T", help="proof of your attempt, from 'claim --json' (RALPH_TOKEN)")


def add_json(parser: Parser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON instead")


def steps_from(text: str) -> tuple[str, ...]:
    steps = json_text("steps", text)
    if not isinstance(steps, list) or not all(isinstance(step, str) for step in steps):
        raise InvalidInput('Steps are a JSON list of texts, such as \'["write it", "test it"]\'.')
    return tuple(steps)


def warn(message: str) -> None:
    complain("ralph", message)


def print_json(document: Json) -> int:
    print(compact_json(document))
    return 0


def print_sections(sections: Iterable[Section]) -> int:
    """As Markdown-KV; nothing at all where there is none."""
    from dibs.protocols.ralph.markdown import render

    text = render(sections, ascii_only=not speaks_utf8())
    if text:
        print(text)
    return 0


def print_lines(lines: Sequence[str]) -> int:
    for line in lines:
        print(line)
    return 0
