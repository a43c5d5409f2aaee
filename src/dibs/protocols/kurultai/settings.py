"""The store, the sender and the agent from the environment, and the settings a sender can change."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, TypedDict

from dibs.core.checks import LIST_MAX
from dibs.core.errors import InvalidInput, Misconfigured, NoStore
from dibs.core.settings import Option, Options
from dibs.protocols.kurultai.policy import ON_ABORT

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from dibs.core.policy import CanceledBlocker
    from dibs.core.task import Json
    from dibs.desk import Desk
    from dibs.protocols.kurultai.memory import OperationalMemory


def open_desk_of(args: argparse.Namespace, *, create: bool = False) -> Desk:
    from dibs.desk import open_desk

    try:
        return open_desk(_store_url(args), create=create)
    except NoStore as error:
        raise NoStore(error.message.replace("'dibs init", "'dibs kurultai init")) from None


def open_memory(args: argparse.Namespace, *, create: bool = False) -> OperationalMemory:
    from dibs.protocols.kurultai.memory import OperationalMemory

    rule, limit = on_abort(), task_limit()
    desk = open_desk_of(args, create=create)
    try:
        return OperationalMemory(desk, by=_speaker(args), on_abort=rule, task_limit=limit)
    except BaseException:
        desk.close()
        raise


def _speaker(args: argparse.Namespace) -> str | None:
    """The name for the events: the agent, or the person at this terminal."""
    said: str | None = getattr(args, "agent", None) or os.environ.get("KURULTAI_AGENT")
    return said or os.environ.get("USER") or None


def _store_url(args: argparse.Namespace) -> str:
    """--store, KURULTAI_STORE, DIBS_STORE or NEO4J_URI, in this order; else the project's store."""
    from dibs.stores.opening import default_url

    named = (
        args.store or os.environ.get("KURULTAI_STORE") or os.environ.get("DIBS_STORE") or os.environ.get("NEO4J_URI")
    )
    if named:
        return str(named)
    try:
        return default_url(os.getcwd())
    except NoStore:
        raise NoStore(
            "No store is set. Set NEO4J_URI (with NEO4J_USER and NEO4J_PASSWORD), or KURULTAI_STORE to another store, "
            "such as sqlite:///kurultai.db; then run 'dibs kurultai init'."
        ) from None


def on_abort() -> CanceledBlocker:
    said = os.environ.get("KURULTAI_ON_ABORT") or "escalate"
    if said not in ON_ABORT:
        raise Misconfigured(f"KURULTAI_ON_ABORT must be one of {', '.join(ON_ABORT)}, not {said[:40]!r}.")
    return ON_ABORT[said]


def task_limit() -> int | None:
    said = os.environ.get("KURULTAI_TASK_LIMIT")
    if not said:
        return None
    if not (said.isascii() and said.isdigit() and 0 < int(said) <= LIST_MAX):
        raise Misconfigured(f"KURULTAI_TASK_LIMIT must be a whole number above zero, not {said[:20]!r}.")
    return int(said)


def sender_secret() -> str:
    return os.environ.get("DIBS_SENDER_SECRET") or ""


def sender_hash(args: argparse.Namespace) -> str:
    """The sender's hash. The command line goes before the environment, and a hash before a plain sender."""
    found = sender_hash_or_none(args)
    if found is None:
        raise InvalidInput(
            "No sender is given. Give --sender (such as a phone number) or --sender-hash, or set KURULTAI_SENDER_HASH "
            "to the output of 'dibs kurultai sender'."
        )
    return found


def sender_hash_or_none(args: argparse.Namespace) -> str | None:
    from dibs.core.sender import hash_sender, sender_hash_of

    if args.sender_hash is not None:
        return sender_hash_of(args.sender_hash)
    if args.sender is not None:
        return hash_sender(args.sender, sender_secret())
    hashed, plain = os.environ.get("KURULTAI_SENDER_HASH"), os.environ.get("KURULTAI_SENDER")
    if hashed:
        return sender_hash_of(hashed)
    return hash_sender(plain, sender_secret()) if plain else None


def agent_of(args: argparse.Namespace) -> str:
    agent: str | None = args.agent or os.environ.get("KURULTAI_AGENT")
    if not agent:
        raise InvalidInput(
            "No agent is given. Give --agent, or set KURULTAI_AGENT; 'dibs kurultai agents' lists the agents."
        )
    return agent


def proof_of(args: argparse.Namespace) -> str:
    proof = proof_or_none(args)
    if proof is None:
        raise InvalidInput(
            "No proof is given. Give the --claim-attempt-id that 'claim' printed, or set KURULTAI_CLAIM_ATTEMPT_ID."
        )
    return proof


def proof_or_none(args: argparse.Namespace) -> str | None:
    return args.claim_attempt_id or os.environ.get("KURULTAI_CLAIM_ATTEMPT_ID") or None


class UserConfig(TypedDict):
    sender_hash: str
    notion_integration_enabled: bool
    notion_database_id: str | None
    notion_poll_enabled: bool
    notion_poll_interval: int
    notion_notify_on_change: bool
    notion_push_enabled: bool
    sync_preference: str


OPTIONS: Options = {
    "notion_integration_enabled": Option(bool, False, "whether tasks are synced with Notion"),
    "notion_database_id": Option(str, None, "id of the Notion database"),
    "notion_poll_enabled": Option(bool, False, "whether Notion is polled"),
    "notion_poll_interval": Option(int, 60, "seconds between polls", least=1, most=86_400, unit="seconds"),
    "notion_notify_on_change": Option(bool, False, "whether the sender gets a note about changes from Notion"),
    "notion_push_enabled": Option(
        bool, False, "whether tasks made here get rows in Notion, with their dependencies as relations"
    ),
    "sync_preference": Option(
        str, "safe", "aggressive lets Notion also complete or cancel idle tasks", ("safe", "aggressive")
    ),
}


def config_of(sender_hash: str, kept: Mapping[str, Json]) -> UserConfig:
    """All options, with defaults. Other settings of the scope are left out."""
    filled = {name: kept.get(name, option.default) for name, option in OPTIONS.items()}
    return {"sender_hash": sender_hash, **filled}  # type: ignore[typeddict-item]  # each is of its option's kind
