"""What users of the mesh set: where the tasks and the logs are, who is speaking, and the options commands share."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

from dibs.console.arguments import whole
from dibs.core.errors import DibsError, InvalidInput, Misconfigured
from dibs.core.scores import FULL_RATING
from dibs.core.task import Actor
from dibs.protocols.mesh.policy import AGENTS, MESH

if TYPE_CHECKING:
    from dibs.console.arguments import Parser
    from dibs.desk import Desk


def open_desk(
    args: argparse.Namespace, agent: str | None = None, *, create: bool = False, writes: bool = False
) -> Desk:
    """The mesh's desk. One that `writes` is refused where the settings name a wrong database for one of the logs."""
    from dibs.desk import open_desk

    desk = open_desk(store_url(args), create=create, policy=MESH, by=Actor(agent))
    scope = os.environ.get("DIBS_SCOPE") if desk.capabilities.scopes else None
    desk = desk.at(args.scope or scope or "default")
    if writes:
        from dibs.protocols.mesh.logs import check_logs

        try:
            check_logs(desk)
        except DibsError:
            desk.close()
            raise
    return desk


def store_url(args: argparse.Namespace) -> str:
    """--store or MESH_STORE, any store of dibs; else the Notion database of MESH_TASKS_DB_ID."""
    named: str | None = args.store or os.environ.get("MESH_STORE")
    if named:
        return named
    database = (os.environ.get("MESH_TASKS_DB_ID") or "").strip()
    if not database:
        raise Misconfigured(
            "Where are the tasks? Set MESH_TASKS_DB_ID to the id of the Notion database (and NOTION_TOKEN), "
            "or MESH_STORE to another store, such as sqlite:///mesh.db."
        )
    return f"notion://{database}?layout=mesh"


def known_agents() -> tuple[str, ...]:
    said = os.environ.get("MESH_AGENTS") or ""
    return tuple(name.strip() for name in said.split(",") if name.strip()) or AGENTS


def agent_of(args: argparse.Namespace) -> str:
    """Who is speaking, spelt as the mesh spells it: names are the same in any case."""
    said = args.agent or os.environ.get("MESH_AGENT")
    if not said:
        raise InvalidInput("Who are you? Give --agent, or set MESH_AGENT.")
    return spelt(said)


def spelt(said: str) -> str:
    known = {name.casefold(): name for name in known_agents()}
    name = known.get(said.strip().casefold())
    if name is None:
        raise InvalidInput(
            f"The mesh knows no agent {said[:40]!r}; it knows {', '.join(known.values())}. Add the name to MESH_AGENTS."
        )
    return name


def same_agent(one: str, other: str) -> bool:
    return one.strip().casefold() == other.strip().casefold()


def nonce_of(args: argparse.Namespace) -> str:
    """The proof of one claim: a name alone could be anybody's."""
    nonce: str | None = args.nonce or os.environ.get("MESH_NONCE")
    if not nonce:
        raise InvalidInput("Which claim is yours? Give the --nonce that 'claim' told you, or set MESH_NONCE.")
    return nonce


def add_shared(parser: Parser) -> None:
    shared = parser.add_argument_group("shared by all commands of the mesh")
    shared.add_argument("--store", metavar="URL", help="where the tasks are (MESH_STORE; else MESH_TASKS_DB_ID)")
    shared.add_argument("--scope", metavar="NAME", help="which set of tasks in it (DIBS_SCOPE; else 'default')")
    shared.add_argument("--json", action="store_true", help="print one JSON document instead of text")


def add_id(parser: Parser, *, optional: bool = False) -> None:
    hint = "the task's id" + ("; without: the next one" if optional else "")
    parser.add_argument("id", metavar="ID", nargs="?" if optional else None, help=hint)


def add_agent(parser: Parser) -> None:
    parser.add_argument("--agent", metavar="NAME", help="who you are (MESH_AGENT)")


def add_nonce(parser: Parser) -> None:
    parser.add_argument("--nonce", metavar="N", help="the proof that claim gave you (MESH_NONCE)")


def add_scores(parser: Parser, *, required: bool = False) -> None:
    for name in ("confidence", "coherence"):
        parser.add_argument(f"--{name}", metavar="N", type=score, required=required, help=f"its {name}, 0 to 100")
    parser.add_argument("--reworks", metavar="N", type=whole, default=0, help="how often it had to be done again")
    parser.add_argument("--notes", metavar="TEXT", help="what is to be said about it")


def score(text: str) -> float:
    """An argparse type for scores."""
    try:
        number = float(text)
    except ValueError:
        number = -1
    if not 0 <= number <= FULL_RATING:
        raise argparse.ArgumentTypeError(f"'{text[:20]}' is not a number from 0 to {FULL_RATING}")
    return number
