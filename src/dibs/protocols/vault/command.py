"""The options that several commands of `dibs vault` share."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dibs.console.arguments import Parser


def add_shared(parser: Parser) -> None:
    shared = parser.add_argument_group("shared by all commands of the vault")
    shared.add_argument(
        "--vault", metavar="FOLDER", help="where the vault is (VAULT_PATH, DIBS_STORE; else the one you are in)"
    )
    shared.add_argument("--json", action="store_true", help="print one JSON document instead of text")


def add_agent(parser: Parser) -> None:
    parser.add_argument("--agent", metavar="NAME", help="who you are (AGENT_NAME; else your role, cloud or local)")


def add_file(parser: Parser, *, optional: bool = False) -> None:
    hint = "the name of its file, such as x.md" + ("; without: the next one" if optional else "")
    parser.add_argument("file", metavar="FILE", nargs="?" if optional else None, help=hint)
    parser.add_argument("--domain", metavar="NAME", help="the sub-folder it lies in, where the name alone will not do")


def add_token(parser: Parser) -> None:
    parser.add_argument("--token", metavar="T", help="the proof that claim gave you (DIBS_TOKEN); checked if given")
