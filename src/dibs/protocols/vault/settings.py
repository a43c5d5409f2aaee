"""Which vault, which agent, what it may do: what the environment says, and the options that go before it."""

import argparse
import os
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from dibs.core import checks
from dibs.core.duration import parse_duration
from dibs.core.errors import InvalidInput, NoStore
from dibs.core.task import Actor
from dibs.protocols.vault.policy import VAULT
from dibs.protocols.vault.roles import ALLOWED, SENSITIVE, Duties, Role
from dibs.stores.vault.places import NEEDS_ACTION

if TYPE_CHECKING:
    from dibs.desk import Desk


class Settings(NamedTuple):
    """Who works where. `url` names the store."""

    url: str
    agent: str
    duties: Duties


def settings_of(args: argparse.Namespace) -> Settings:
    role = _role()
    allowed = _actions("ALLOWED_ACTIONS", os.environ.get("ALLOWED_ACTIONS"), ALLOWED[role])
    sensitive = _actions("SENSITIVE_ACTIONS", os.environ.get("SENSITIVE_ACTIONS"), SENSITIVE)
    return Settings(vault_url(args), _agent(args, role), Duties(role, allowed, sensitive))


def open_vault(settings: Settings, run: str | None = None) -> "Desk":
    """The vault's desk, for the agent that the settings name."""
    from dibs.desk import open_desk

    return open_desk(settings.url, policy=VAULT, by=Actor(settings.agent, run))


def vault_url(args: argparse.Namespace) -> str:
    """The vault that is named, or the one this folder is in."""
    path = args.vault or os.environ.get("VAULT_PATH")
    if path:
        return url_of(path)
    store = os.environ.get("DIBS_STORE") or ""
    if store.startswith("vault:"):
        return store
    found = _around(os.getcwd())
    if found is None:
        raise NoStore("Where is the vault? Give --vault or set VAULT_PATH; 'dibs vault init FOLDER' makes one.")
    return url_of(found)


def place_of(desk: "Desk") -> str:
    """The folder of a vault."""
    return desk.describe()["place"]


def url_of(path: str) -> str:
    return f"vault:///{os.path.abspath(path).replace('%', '%25').replace('?', '%3F')}"


def _around(start: str) -> str | None:
    folder = os.path.abspath(start)
    while not os.path.isdir(os.path.join(folder, NEEDS_ACTION)):
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
        raise InvalidInput(f"AGENT_ROLE is {' or '.join(Role)}, not {said[:40]!r}.") from None


def _agent(args: argparse.Namespace, role: Role) -> str:
    """Without a name an agent is called by its role, as its folder in In_Progress then is."""
    name = args.agent or os.environ.get("AGENT_NAME") or os.environ.get("DIBS_AGENT") or role.lower()
    return checks.name_of("agent", name)


def _actions(name: str, said: str | None, default: frozenset[str]) -> frozenset[str]:
    if not said:
        return default
    found = frozenset(word.strip().lower() for word in said.split(",") if word.strip())
    if not found:
        raise InvalidInput(f"{name} names no action; write them like triage,draft, or * for all.")
    return found


def span_from(name: str, said: str | None) -> timedelta | None:
    """A span of time from the environment."""
    if not said:
        return None
    try:
        return parse_duration(said)
    except InvalidInput as error:
        raise InvalidInput(f"{name}: {error.message}") from None
