"""Defaults for identities: the name of an agent, and the secret under which a project hashes senders."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

# The variables that a product sets for the commands it runs; where it has one, the variable that names the session.
_PRODUCTS = (
    ("claude", ("CLAUDECODE",), ("CLAUDE_CODE_SESSION_ID", "CLAUDE_SESSION_ID")),
    ("codex", ("CODEX_THREAD_ID", "CODEX_SANDBOX", "CODEX_SANDBOX_NETWORK_DISABLED"), ("CODEX_THREAD_ID",)),
    ("gemini", ("GEMINI_CLI",), ()),
    ("cursor", ("CURSOR_AGENT",), ()),
    ("opencode", ("OPENCODE",), ()),
)
_ANY_PRODUCT = "AI_AGENT"  # several products name themselves here, such as `devin@1`
_SESSION = 5  # letters and digits of a session's name
_LONGEST = 40  # characters of a worktree's name
_LETTERS = "0123456789abcdefghjkmnpqrstvwxyz"


def agent_name() -> str:
    """DIBS_AGENT; else the agent of the server's token; else the product with its worktree or session, such as
    `claude@wt1`; else the user's login name, with the worktree if that is a linked one.
    """
    if named := os.environ.get("DIBS_AGENT"):
        return named
    if (store := os.environ.get("DIBS_STORE", "")).startswith(("https://", "http://", "http+unix://")):
        from dibs.stores.http.connection import token_agent

        if named := token_agent(store):
            return named
    return product_agent(os.environ) or _user(os.environ.get("USER") or _login_name())


def _user(login: str) -> str:
    """The user's name, by which programs in several worktrees are different agents."""
    worktree = _worktree()
    return f"{login}@{worktree}" if worktree else login


def _worktree() -> str:
    """The name of the linked worktree that this process is in, or nothing."""
    from dibs.stores.opening import linked_worktree

    with suppress(FileNotFoundError):  # the folder was deleted
        found = linked_worktree(os.getcwd())
        return "" if found is None else _plain(found.name)
    return ""


def product_agent(variables: Mapping[str, str]) -> str | None:
    """The name of the agent whose product runs this command; None if no product does."""
    found = _product(variables)
    if found is None:
        return None
    product, marks, sessions = found
    if worktree := _worktree():
        return f"{product}@{worktree}"
    session = next((variables[name] for name in sessions if variables.get(name)), None)
    return f"{product}@{_short(session or _process_of_session(marks))}"


def product_name(variables: Mapping[str, str]) -> str | None:
    """The product that runs this command, such as `claude`."""
    found = _product(variables)
    return None if found is None else found[0]


def client_agent(client: str | None, session: str) -> str:
    """The name of a client of a server that gives none: its program with its session, such as `claude-code@k3v9x`."""
    return f"{_plain(client or '') or 'client'}@{_short(session)}"


def _product(variables: Mapping[str, str]) -> tuple[str, tuple[str, ...], tuple[str, ...]] | None:
    for product, marks, sessions in _PRODUCTS:
        if any(variables.get(mark) for mark in marks):
            return product, marks, sessions
    named = _plain(variables.get(_ANY_PRODUCT, "").partition("@")[0])
    return (named, (_ANY_PRODUCT,), ()) if named else None


def _plain(name: str) -> str:
    """A part of a name, with hyphens instead of other characters than letters and digits."""
    letters = (char if char.isalnum() or char in "._" else " " for char in name)
    return "-".join("".join(letters).split())[:_LONGEST]


def _short(session: str) -> str:
    from hashlib import blake2b

    digest = blake2b(session.encode(errors="surrogateescape"), digest_size=_SESSION).digest()
    return "".join(_LETTERS[byte & 31] for byte in digest)


def _process_of_session(marks: tuple[str, ...]) -> str:
    """The product's own process: the parent of the oldest ancestor whose environment has the product's mark."""
    process = os.getpid()
    while (parent := _parent(process)) > 1:
        if not _is_marked(parent, marks):
            return f"{parent} {_started(parent)}"
        process = parent
    return f"{os.getsid(0)}"


def _is_marked(process: int, marks: tuple[str, ...]) -> bool:
    try:
        with open(f"/proc/{process}/environ", "rb") as file:
            given = file.read().split(b"\0")
    except OSError:  # another user's, or there is no /proc
        return False
    return any(each.startswith(f"{mark}=".encode()) for each in given for mark in marks)


def _parent(process: int) -> int:
    if process == os.getpid():
        return os.getppid()
    return int(_stat(process)[1]) if _stat(process) else 0


def _started(process: int) -> str:
    """When a process began, so that a later one with its number is another."""
    fields = _stat(process)
    return fields[19] if fields else ""


def _stat(process: int) -> list[str]:
    """The fields of /proc/PID/stat behind the program's name; empty where there is no such file."""
    try:
        with open(f"/proc/{process}/stat", encoding="utf-8", errors="surrogateescape") as file:
            return file.read().rpartition(")")[2].split()
    except OSError:
        return []


def _login_name() -> str:
    try:
        import pwd

        return pwd.getpwuid(os.getuid()).pw_name
    except (ImportError, KeyError):  # a system without accounts, or a user without an entry
        return f"user-{os.getuid()}" if hasattr(os, "getuid") else "user"


# Senders

_SECRET_FILE = "sender-secret"  # noqa: S105 - the name of a file


def sender_secret(store: Mapping[str, str]) -> str:
    """DIBS_SENDER_SECRET; else a file beside a SQLite store, made the first time; "" for other stores."""
    given = os.environ.get("DIBS_SENDER_SECRET")
    if given is not None or store.get("kind") != "sqlite":
        return given or ""
    path = os.path.join(os.path.dirname(store["place"]), _SECRET_FILE)
    try:
        if not os.path.exists(path):
            _make_secret(path)
        with open(path, encoding="ascii") as file:
            return file.read().strip()
    except OSError:  # such as a folder that cannot be written to: the variable is asked for
        return ""


def _make_secret(path: str) -> None:
    """Whole or not at all; of two processes that make one at once, the first one's counts."""
    draft = f"{path}.{os.getpid()}"
    with open(os.open(draft, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "w", encoding="ascii") as file:
        file.write(os.urandom(32).hex() + "\n")
    with suppress(FileExistsError):
        os.link(draft, path)
    os.unlink(draft)
