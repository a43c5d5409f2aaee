"""The vault, the agent and its permissions: rules as data, environment variables and shared options."""

from __future__ import annotations

import os
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from dibs.core import checks
from dibs.core.errors import InvalidInput, NoStore
from dibs.core.lifecycle import Verb
from dibs.core.policy import OwnerProof, Policy
from dibs.core.task import Actor, Task
from dibs.core.times import parse_duration
from dibs.stores.vault import places

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping
    from datetime import timedelta

    from dibs.console.arguments import Parser
    from dibs.desk import Desk

# By the contract a file in In_Progress/<name>/ belongs to that name. A token is checked if it is given.
VAULT = Policy(name="vault", owner_proof=OwnerProof.NAME, short_ids=False)

NEXT_STATES: Mapping[str, Verb] = {
    places.PENDING_APPROVAL: Verb.REVIEW,
    places.DONE: Verb.DONE,
    places.REJECTED: Verb.CANCEL,
    places.NEEDS_ACTION: Verb.RELEASE,
}


class Role(StrEnum):
    CLOUD = "CLOUD"
    LOCAL = "LOCAL"


_PREPARING = frozenset({"triage", "draft", "schedule", "monitor"})
SENSITIVE = frozenset({"approve", "send", "post", "whatsapp", "banking", "execute"})
ALLOWED: Mapping[Role, frozenset[str]] = {Role.CLOUD: _PREPARING, Role.LOCAL: _PREPARING | SENSITIVE}

ANY = "*"
APPROVE = "approve"
UNNAMED = "triage"  # the action of a file that names none
ACTION_OF_DRAFT: Mapping[str, str] = {
    "email_send": "send",
    "social_post": "post",
    "payment": "banking",
    "invoice_post": "execute",
}
_DRAFT_OF_ACTION = {action: kind for kind, action in ACTION_OF_DRAFT.items()}

# Keys of the front matter, in addition to the store's.
ACTION = "action"
DRAFT_ID, DRAFT_TYPE, DRAFT_OF = "draft_id", "draft_type", "draft_of"
APPROVAL, EXPIRES = "approval_status", "expires_at"
PENDING, APPROVED, REJECTED, EXPIRED = "pending", "approved", "rejected", "expired"


class Handling(StrEnum):
    """How an agent treats a task: carry it out, draft it for approval, or leave it to others."""

    ACT = "act"
    DRAFT = "draft"
    LEAVE = "leave"


class Permissions(NamedTuple):
    """The permissions of one agent."""

    role: Role
    allowed: frozenset[str]
    sensitive: frozenset[str]

    def way(self, task: Task) -> Handling:
        action = action_of(task)
        if DRAFT_OF in task.extra:
            return Handling.LEAVE  # a draft waits for a person, in whatever folder
        if self.may(action):
            return Handling.ACT
        if self.role is Role.CLOUD and action in self.sensitive and task.extra.get(APPROVAL) != APPROVED:
            return Handling.DRAFT
        return Handling.LEAVE

    def may(self, action: str) -> bool:
        return ANY in self.allowed or action in self.allowed


def action_of(task: Task) -> str:
    """The kind of work. A type of draft means the action that carries it out."""
    said = task.extra.get(ACTION)
    action = str(said).strip().lower() if said is not None else ""
    return ACTION_OF_DRAFT.get(action, action) or UNNAMED


def draft_type(task: Task) -> str:
    """The type of a task's draft: the one it names, or the one of its action."""
    said = str(task.extra.get(DRAFT_TYPE) or task.extra.get(ACTION))
    if said in ACTION_OF_DRAFT:
        return said
    action = action_of(task)
    return _DRAFT_OF_ACTION.get(action, action)


class Settings(NamedTuple):
    """The store's URL, the agent's name and its permissions."""

    url: str
    agent: str
    duties: Permissions


def settings_of(args: argparse.Namespace) -> Settings:
    role = _role()
    allowed = _actions("ALLOWED_ACTIONS", os.environ.get("ALLOWED_ACTIONS"), ALLOWED[role])
    sensitive = _actions("SENSITIVE_ACTIONS", os.environ.get("SENSITIVE_ACTIONS"), SENSITIVE)
    return Settings(vault_url(args), _agent(args, role), Permissions(role, allowed, sensitive))


def open_vault(settings: Settings, run: str | None = None) -> Desk:
    """Open the vault for the agent in the settings."""
    from dibs.desk import open_desk

    return open_desk(settings.url, policy=VAULT, by=Actor(settings.agent, run))


def vault_url(args: argparse.Namespace) -> str:
    """The vault that was named, or the one around this folder."""
    path = args.vault or os.environ.get("VAULT_PATH")
    if path:
        return url_of(path)
    store = os.environ.get("DIBS_STORE") or ""
    if store.startswith("vault:"):
        return store
    found = _around(os.getcwd())
    if found is None:
        raise NoStore("No vault was named. Give --vault or set VAULT_PATH; 'dibs vault init FOLDER' makes one.")
    return url_of(found)


def place_of(desk: Desk) -> str:
    """The folder of a vault."""
    return desk.describe()["place"]


def url_of(path: str) -> str:
    return f"vault:///{os.path.abspath(path).replace('%', '%25').replace('?', '%3F')}"


def _around(start: str) -> str | None:
    folder = os.path.abspath(start)
    while not os.path.isdir(os.path.join(folder, places.NEEDS_ACTION)):
        above = os.path.dirname(folder)
        if above == folder:
            return None
        folder = above
    return folder


def _role() -> Role:
    said = os.environ.get("AGENT_ROLE") or Role.LOCAL
    try:
        return Role(said.upper())
    except ValueError:
        raise InvalidInput(f"AGENT_ROLE must be {' or '.join(Role)}, not {said[:40]!r}.") from None


def _agent(args: argparse.Namespace, role: Role) -> str:
    """The agent's name; its role if none is given."""
    name = args.agent or os.environ.get("AGENT_NAME") or os.environ.get("DIBS_AGENT") or role.lower()
    return checks.name_of("agent", name)


def _actions(name: str, said: str | None, default: frozenset[str]) -> frozenset[str]:
    if not said:
        return default
    found = frozenset(word.strip().lower() for word in said.split(",") if word.strip())
    if not found:
        raise InvalidInput(f"{name} names no action. Write a list such as triage,draft, or * for all.")
    return found


def span_from(name: str, said: str | None) -> timedelta | None:
    """A time span from an environment variable."""
    if not said:
        return None
    try:
        return parse_duration(said)
    except InvalidInput as error:
        raise InvalidInput(f"{name}: {error.message}") from None


def add_shared(parser: Parser) -> None:
    shared = parser.add_argument_group("shared by all commands of the vault")
    shared.add_argument(
        "--vault", metavar="FOLDER", help="the vault (VAULT_PATH, DIBS_STORE; else the one around this folder)"
    )
    shared.add_argument("--json", action="store_true", help="print one JSON document instead of text")


def add_agent(parser: Parser) -> None:
    parser.add_argument("--agent", metavar="NAME", help="your name (AGENT_NAME; else your role, cloud or local)")


def add_file(parser: Parser, *, optional: bool = False) -> None:
    hint = "name of the task's file, such as x.md" + (" (the next one)" if optional else "")
    parser.add_argument("file", metavar="FILE", nargs="?" if optional else None, help=hint)
    parser.add_argument("--domain", metavar="NAME", help="its sub-folder, if several have a file of that name")


def add_token(parser: Parser) -> None:
    parser.add_argument("--token", metavar="T", help="the token from 'claim' (DIBS_TOKEN); checked if given")
